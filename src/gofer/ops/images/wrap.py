"""Images wrapped for Singularity: wrap, push, record and list them, and choose the image of a target.

An image is not wrapped again if digest, steps and bases are the same as before. The records of this user, or
the label of the wrapped image in its registry, tell this. `image:` of a target may name an entry of
`dockers:`; its runs then use the wrapped image if the target needs one.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.backends.registry import capabilities_of
from gofer.config.dockers import Docker, docker, docker_names
from gofer.config.yaml.nodes import Scalar, table
from gofer.core import private_folder
from gofer.errors import CheckFailed, CredentialError, GoferError, UsageError
from gofer.model.decode import decode
from gofer.ops.images.build import (
    HEAD,
    INSTALLER,
    LABEL,
    VALIDATOR,
    Wrapping,
    build_words,
    dockerfile,
    find_builder,
    push_words,
    wrapped_name,
)
from gofer.ops.messages import Hint, Message
from gofer.text import quote_command

if TYPE_CHECKING:
    from gofer.backends.base import Capabilities
    from gofer.config.paths import Paths
    from gofer.ops.images.build import Builder
    from gofer.ops.session import Session


class WrapRequest(NamedTuple):
    """The request of a person. `tag` is the full name for the wrapped image. `is_built`: the person has built
    and pushed the image, and gofer only records it.
    """

    name: str
    push: bool = False
    out: Path | None = None
    accelerator: str = "NVIDIA"
    tag: str | None = None
    installer: str = INSTALLER
    validator: str = VALIDATOR
    is_built: bool = False


class ImageResult(NamedTuple):
    """The result. `done` is `built`, `pushed`, `known`, `kept` or `written`; `next` are commands for the
    person to run.
    """

    image: str
    base: str
    mark: str
    done: str
    dockerfile: str
    is_pushed: bool
    why: str = ""
    next: tuple[str, ...] = ()


def wrapping_of(found: Docker, request: WrapRequest | None = None) -> Wrapping:
    """The wrapping that the request describes."""
    asked = request or WrapRequest(found.name)
    return Wrapping(found.pinned, found.post_sing_steps, asked.accelerator, asked.installer, asked.validator)


def wrapped_of(session: Session, found: Docker) -> Wrapped | None:
    """The record of the image's newest wrapping; None when it was never wrapped with these settings."""
    return ImageRecords.of(session.paths).find(name_mark(found))


def name_mark(found: Docker) -> str:
    """The mark under which the newest wrapping of an image with these steps is also recorded, whatever its
    bases are.
    """
    return Wrapping(found.pinned, found.post_sing_steps, "", "", "").mark


def wrap(session: Session, request: WrapRequest) -> ImageResult:
    """Do what is left to do. Blocks. Idempotent: what was done before is reported and not repeated."""
    found = docker(session.settings, request.name)
    wrapping = wrapping_of(found, request)
    text = dockerfile(wrapping)
    records = ImageRecords.of(session.paths)
    known = records.find(wrapping.mark)
    image = request.tag or (known.image if known else wrapped_name(found.full_name, wrapping.mark))
    folder = request.out or session.paths.store_dir.parent / "images" / found.name
    path = _write(folder, text)
    work = _Work(session, found, wrapping, image, str(path))
    if request.is_built:
        return work.keep("kept", is_pushed=True)
    is_same = known is not None and found.sha256 is not None and known.image == image
    if known is not None and is_same and (known.is_pushed or not request.push):
        return work.result("known", known.is_pushed)
    return work.make(request.push, is_built=is_same)


class _Work:
    """The work on one image."""

    def __init__(self, session: Session, found: Docker, wrapping: Wrapping, image: str, path: str) -> None:
        self._session = session
        self._docker = found
        self._wrapping = wrapping
        self._image = image
        self._path = path

    def make(self, push: bool, *, is_built: bool) -> ImageResult:
        builder, why = find_builder(self._session.environ)
        if builder is None:
            return self.result("written", False, why, self._by_hand())
        mark = self._wrapping.mark
        if push or self._docker.password:
            self._sign_in(builder)
        if self._docker.sha256 is not None:
            if builder.label(self._image, LABEL, fetch=False) == mark:
                is_built = True
            elif builder.label(self._image, LABEL, fetch=True) == mark:
                return self.keep("known", is_pushed=True)
            else:
                is_built = False
        if not is_built:
            builder.build(str(Path(self._path).parent), self._image)
        if not push:
            outcome = self.keep("built", is_pushed=False)
            return outcome._replace(next=(f"gofer image wrap {self._docker.name} --push",))
        builder.push(self._image)
        return self.keep("pushed", is_pushed=True)

    def keep(self, done: str, *, is_pushed: bool) -> ImageResult:
        """Record the image under its own mark and as the newest wrapping."""
        records = ImageRecords.of(self._session.paths)
        wrapped = Wrapped(
            image=self._image, base=self._wrapping.base, is_pushed=is_pushed, made_at=time.time()
        )
        for mark in (self._wrapping.mark, name_mark(self._docker)):
            records.keep(mark, wrapped)
        return self.result(done, is_pushed)

    def result(self, done: str, is_pushed: bool, why: str = "", then: tuple[str, ...] = ()) -> ImageResult:
        if self._docker.sha256 is None and done in ("built", "pushed"):
            why = "it has no `sha256:`, so the next `gofer image wrap` wraps it again"
        mark = self._wrapping.mark
        return ImageResult(self._image, self._wrapping.base, mark, done, self._path, is_pushed, why, then)

    def _sign_in(self, builder: Builder) -> None:
        found = self._docker
        if found.password is None:
            return  # use the login that the program has stored
        if not found.username:
            raise CredentialError(
                f"the image `{found.name}` has a `password` and no `username`",
                hint=f"add `username: NAME` under `dockers: {found.name}:`",
            )
        password = self._session.settings.resolve(found.password)
        builder.sign_in(found.registry, found.username, password)

    def _by_hand(self) -> tuple[str, ...]:
        folder = str(Path(self._path).parent)
        return (
            quote_command(["docker", *build_words(folder, self._image)]),
            quote_command(["docker", *push_words(self._image)]),
            f"gofer image wrap {self._docker.name} --built",
        )


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "Dockerfile"
    there = path.read_text(errors="replace") if path.exists() else ""
    if there and not there.startswith(HEAD):
        raise UsageError(
            f"`{path}` was not written by gofer, and is not replaced", hint="name another folder with `--out`"
        )
    if there != text:
        path.write_text(text)
    return path


def image_rows(session: Session) -> list[dict[str, object]]:
    """Every image with its wrapping. Does not look up any secret."""
    return [image_facts(session, name) for name in docker_names(session.settings)]


def image_facts(session: Session, name: str) -> dict[str, object]:
    """All facts about one image. The password appears only as its reference."""
    found = docker(session.settings, name)
    kept = wrapped_of(session, found)
    return {
        "name": found.name,
        "image": found.full_name,
        "registry": found.registry,
        "sha256": found.sha256,
        "sing_wrap": found.sing_wrap,
        "post_sing_steps": list(found.post_sing_steps),
        "username": found.username,
        "password": found.password,
        "wrapped": kept.image if kept else None,
        "wrapped_at": kept.made_at if kept else None,
        "is_pushed": kept.is_pushed if kept else None,
        "used_by": _users(session, name),
        "origin": found.origin,
    }


def _users(session: Session, name: str) -> list[str]:
    targets = table(session.settings.section("targets"))
    images = {target: table(node).get("image") for target, node in targets.items()}
    return sorted(one for one, node in images.items() if isinstance(node, Scalar) and node.text == name)


class Wrapped(msgspec.Struct, frozen=True, kw_only=True):
    """One wrapped image: its name, what it was made of, and whether its registry has it."""

    image: str
    base: str
    is_pushed: bool
    made_at: float


class ImageRecords:
    """The records by mark. A missing or damaged file counts as empty; an image is then wrapped again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, paths: Paths) -> ImageRecords:
        return cls(paths.store_dir.parent / "images.json")

    def find(self, mark: str) -> Wrapped | None:
        """The record of a wrapping; None when this user never made it."""
        return self._load().get(mark)

    def keep(self, mark: str, wrapped: Wrapped) -> None:
        """Add or replace a record. The file is replaced in one step, so a reader sees the old or the new
        records.
        """
        records = {**self._load(), mark: wrapped}
        data = msgspec.json.format(msgspec.json.encode(records), indent=1) + b"\n"
        try:
            private_folder.make_missing(self._path.parent)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._path)
        except OSError as error:
            raise GoferError(f"cannot write `{self._path}`: {error.strerror}") from None

    def _load(self) -> dict[str, Wrapped]:
        try:
            return decode(self._path.read_bytes(), dict[str, Wrapped]) or {}
        except OSError:
            return {}


def complete_image(session: Session, capabilities: Capabilities) -> str | None:
    """The image that a target names: for an entry of `dockers:`, its complete name. Calls no service.

    A wrapped image that does not exist yet has the name that `provide_image` gives it.
    """
    found = _named(session, capabilities)
    if found is None:
        return capabilities.image
    if found.sing_wrap and capabilities.is_image_wrapped:
        kept = wrapped_of(session, found)
        return kept.image if kept else wrapped_name(found.full_name, wrapping_of(found).mark)
    return found.pinned


def check_image(session: Session, target: str) -> None:
    """Name what `provide_image` will do. CheckFailed when runs of the target need a wrapped image that is not
    in its registry and cannot be built here.
    """
    found = _image_to_wrap(session, target)
    if found is None:
        return
    builder, why = find_builder(session.environ)
    kept = wrapped_of(session, found)
    if builder is not None and (kept is None or _is_usual(session, found, kept)):
        session.emit(Message(f"the image `{found.name}` is wrapped for Singularity before the run is sent"))
        if found.sha256 is None:
            session.emit(Hint(f"with `sha256:` under `dockers: {found.name}:`, it is wrapped only once"))
        return
    if kept is not None and kept.is_pushed:
        return
    problem = f"the image `{found.name}` of the target `{target}` must be wrapped for Singularity, and is not"
    if kept is not None:
        problem = f"the wrapped image `{kept.image}` of the target `{target}` is only on this machine"
    raise CheckFailed(f"{problem}{f': {why}' if why else ''}", hint=f"`gofer image wrap {found.name} --push`")


def provide_image(session: Session, target: str) -> None:
    """Wrap and push the image of the target if its runs need it. Call after `check_image`. Blocks.
    Idempotent.
    """
    found = _image_to_wrap(session, target)
    if found is None:
        return
    kept = wrapped_of(session, found)
    if kept is None or _is_usual(session, found, kept):
        outcome = wrap(session, WrapRequest(found.name, push=True))
        if not outcome.is_pushed and kept is None:
            check_image(session, target)  # the builder has stopped since the first check


def _image_to_wrap(session: Session, target: str) -> Docker | None:
    """The image that runs of the target need wrapped, unless its registry has the wrapped image of exactly
    this version.
    """
    capabilities = capabilities_of(session.settings.target(target))
    found = _named(session, capabilities)
    if found is None or not (found.sing_wrap and capabilities.is_image_wrapped):
        return None
    kept = wrapped_of(session, found)
    return None if kept and kept.is_pushed and found.sha256 is not None else found


def _is_usual(session: Session, found: Docker, kept: Wrapped) -> bool:
    """Whether the wrapped image has the name and the bases that `gofer image wrap NAME` chooses by itself."""
    return ImageRecords.of(session.paths).find(wrapping_of(found).mark) == kept


def _named(session: Session, capabilities: Capabilities) -> Docker | None:
    image = capabilities.image
    if image is None or image not in docker_names(session.settings):
        return None
    return docker(session.settings, image)
