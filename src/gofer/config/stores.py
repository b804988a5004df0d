"""An entry of `stores:`: its URL and its credentials. Only `gofer.storage` knows the services.

Addresses: `file:///folder`, `az://container/prefix` with `account:` (gofer itself writes it
`az://container@account/prefix`, which says the same alone), `s3://bucket/prefix`, `gs://bucket/prefix`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gofer.config.redact import remember
from gofer.config.references import holds_reference, references
from gofer.config.yaml.nodes import Node, Scalar, ValueOrigin
from gofer.config.yaml.problems import STRICT, Problems
from gofer.errors import ConfigError, UsageError

# These give access to the data: in a settings file they must be references, never the value itself.
SECRET_KEYS = ("key", "sas", "secret_key", "session_token")
_KEYS_OF = {
    "az": ("account", "key", "sas", "endpoint", "hierarchical", "profile"),
    "s3": ("endpoint", "region", "access_key", "secret_key", "session_token"),
    "gs": ("key", "endpoint"),
    "file": (),
    "memory": (),
    "ssh": (),
}


_ADDRESSES = (
    "write `file:///shared/folder`, `az://container/prefix`, `s3://bucket/prefix` or `gs://bucket/prefix`"
)


class StoreOptions(NamedTuple):
    """The options of an entry, without its URL. The repr shows no secret. References stay until
    `resolved`.
    """

    account: str | None = None
    key: str | None = None
    sas: str | None = None
    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None
    hierarchical: str | None = None
    profile: str | None = None

    @property
    def is_hierarchical(self) -> bool:
        """Whether the account has a hierarchical namespace, as its owner says."""
        return (self.hierarchical or "").lower() in ("true", "yes", "on")

    def resolved(self, resolve: Callable[[str], str]) -> StoreOptions:
        """The options with every reference looked up; CredentialError or ConfigError for a missing value."""
        return StoreOptions(*(None if text is None else resolve(text) for text in self))

    def __repr__(self) -> str:
        shown = {
            name: "***" if name in SECRET_KEYS else text for name, text in self._asdict().items() if text
        }
        return f"StoreOptions({', '.join(f'{name}={text!r}' for name, text in shown.items())})"


class StoreEntry(NamedTuple):
    """A store by name; `url` has its references resolved, `options` keeps them."""

    name: str
    url: str
    origin: str
    options: StoreOptions = StoreOptions()


def read_options(entries: Mapping[str, Node]) -> StoreOptions:
    """The options as written."""
    texts = {
        name: node.text for name, node in entries.items() if isinstance(node, Scalar) and not node.is_null
    }
    return StoreOptions(**{name: texts.get(name) for name in StoreOptions._fields})


def full_address(url: str, account: str | None) -> str:
    """The unique address of the store, with its account: two accounts may have containers of the same
    name.
    """
    scheme, mark, rest = url.partition("://")
    container, slash, prefix = rest.partition("/")
    if scheme != "az" or not mark or not account or "@" in container:
        return url
    return f"{scheme}{mark}{container}@{account}{slash}{prefix}"


def nearest_entry(entries: Sequence[StoreEntry], url: str) -> StoreEntry | None:
    """The entry of that address, or one of the same container with this address in place of its own.

    None when there is none; UsageError when the address names no account and there are several.
    """
    near = [entry for entry in entries if _in_one_container(entry.url, url)]
    exact = [entry for entry in near if entry.url == url]
    if not exact and len({entry.options.account for entry in near}) > 1:
        words = ", ".join(f"`{entry.name}` ({entry.url})" for entry in near)
        raise UsageError(f"`{url}` may be in any of the stores {words}", hint="name the store")
    return (exact or [near[0]._replace(url=url)])[0] if near else None


def _in_one_container(one: str, other: str) -> bool:
    (scheme, place), (other_scheme, other_place) = (_parts(url) for url in (one, other))
    container, _, account = place.partition("@")
    other_container, _, other_account = other_place.partition("@")
    same_account = account == other_account or not account or not other_account
    return (scheme, container) == (other_scheme, other_container) and same_account


def _parts(url: str) -> tuple[str, str]:
    scheme, _, rest = url.partition("://")
    return scheme, rest.partition("/")[0]


def check_store_entry(name: str, entries: Mapping[str, Node], problems: Problems = STRICT) -> None:
    """ConfigError for an address of no kind of store, for an option that this kind of store does not have,
    and for a secret in plain text.
    """
    url = entries.get("url")
    text = url.text if isinstance(url, Scalar) else ""
    scheme = text.partition("://")[0]
    if url is not None:
        with problems:
            _check_address(name, text, url.place)
    for key, node in entries.items():
        with problems:
            if key != "url" and scheme in _KEYS_OF and key not in _KEYS_OF[scheme]:
                known = ", ".join(f"`{one}`" for one in _KEYS_OF[scheme]) or "none"
                hint = f"a store at `{scheme}://…` takes {known} beside `url`"
                raise ConfigError(
                    f"`stores.{name}.{key}` means nothing here", where=node.place.where, hint=hint
                )
            if key == "profile" and (beside := [one for one in ("key", "sas") if one in entries]):
                why = f"the store is opened by its `{beside[0]}`, not by a login"
                raise ConfigError(
                    f"`stores.{name}.profile` means nothing here: {why}", where=node.place.where
                )
            if key in SECRET_KEYS and isinstance(node, Scalar) and not node.is_null:
                check_secret("stores", name, key, node)


def _check_address(name: str, url: str, place: ValueOrigin) -> None:
    if "${secret:" in url:
        why = "an address is part of each run's record"
        raise ConfigError(f"`stores.{name}.url` must not hold a secret: {why}", where=place.where)
    scheme, mark, _ = url.partition("://")
    if mark and not holds_reference(scheme) and scheme not in _KEYS_OF:
        raise ConfigError(
            f"`stores.{name}.url`: no kind of store has addresses that begin with `{scheme}://`",
            where=place.where,
            hint=_ADDRESSES,
        )


def check_secret(section: str, name: str, key: str, node: Scalar) -> None:
    """ConfigError when the value of a secret key is no reference."""
    found = [*references(node.text)]
    if found and not any(reference.default for reference in found):
        return
    remember(node.text)
    raise ConfigError(
        f"`{section}.{name}.{key}` is written out, and files of settings are read by many",
        where=node.place.where,
        hint=f"`gofer secret set {name}-{key}` asks for it; then write `${{secret:{name}-{key}}}` here",
    )
