"""`dockers:`: container images by name. This module neither builds images nor runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gofer.config.sections import DockerSection
from gofer.config.stores import check_secret
from gofer.config.yaml.decode import Decoder, struct_type
from gofer.config.yaml.nodes import Items, Node, Scalar, table
from gofer.errors import UnknownName
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.config.settings import Settings

_TRUE = ("true", "yes", "on")


class Docker(NamedTuple):
    """One image. `password` is still a reference; `Settings.resolve` looks it up when it is needed."""

    name: str
    image: str
    registry: str | None = None
    sha256: str | None = None
    post_sing_steps: tuple[str, ...] = ()
    sing_wrap: bool = False
    username: str | None = None
    password: str | None = None
    origin: str = ""

    @property
    def full_name(self) -> str:
        """The name by which any machine can pull the image, without the digest."""
        if self.registry is None or self.image.startswith(f"{self.registry}/"):
            return self.image
        return f"{self.registry}/{self.image}"

    @property
    def pinned(self) -> str:
        """As `full_name`, with the digest of exactly one version where one is known."""
        return self.full_name if self.sha256 is None else f"{self.full_name}@sha256:{self.sha256}"


def check_docker(name: str, node: Node) -> None:
    """ConfigError for an entry that describes no image, and for a password in plain text."""
    Decoder().value(node, struct_type(DockerSection), f"dockers.{name}")
    password = table(node).get("password")
    if isinstance(password, Scalar) and not password.is_null:
        check_secret("dockers", name, "password", password)


def docker_names(settings: Settings) -> list[str]:
    """The names of all images, sorted; empty when no file has any."""
    return sorted(table(settings.section("dockers")))


def docker(settings: Settings, name: str) -> Docker:
    """The image of that name; UnknownName when there is none."""
    known = table(settings.section("dockers"))
    if name not in known:
        listed = ", ".join(f"`{one}`" for one in sorted(known))
        hint = did_you_mean(name, known) or (f"the images are {listed}" if known else None)
        raise UnknownName(
            f"there is no image `{name}` under `dockers:`",
            hint=hint or f"write `dockers: {{{name}: {{image: NAME}}}}` into gofer.yaml",
        )
    entries, place = table(known[name]), known[name].place
    texts = {key: node.text for key, node in entries.items() if isinstance(node, Scalar) and not node.is_null}
    plain = {key: settings.resolve(texts[key]) for key in ("image", "registry", "username") if key in texts}
    digest = texts.get("sha256")
    return Docker(
        name,
        plain["image"],
        (plain.get("registry") or "").removeprefix("https://").rstrip("/") or None,
        digest.removeprefix("sha256:") if digest else None,
        _steps(entries.get("post_sing_steps")),
        settings.resolve(texts.get("sing_wrap", "")).lower() in _TRUE,
        plain.get("username"),
        texts.get("password"),
        place.origin,
    )


def _steps(node: Node | None) -> tuple[str, ...]:
    items = node.items if isinstance(node, Items) else ()
    return tuple(item.text for item in items if isinstance(item, Scalar))
