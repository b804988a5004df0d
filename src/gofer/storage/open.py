"""Opens the store of a URL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.config.stores import StoreOptions
from gofer.errors import UsageError
from gofer.storage.file import FileStore

if TYPE_CHECKING:
    from gofer.storage.base import Store
    from gofer.storage.credentials import OpenedStore
    from gofer.storage.memory import MemoryStore
    from gofer.transport.ssh import Login

_KINDS = (
    "`file:///shared/gofer` (a folder), `az://container/prefix` (Azure), `s3://bucket/prefix`, "
    "`gs://bucket/prefix`, `ssh://host/folder` and `memory://name` (this process only)"
)
_NOTHING = StoreOptions()
_memories: dict[str, MemoryStore] = {}


def open_store(
    url: str,
    options: StoreOptions | None = None,
    *,
    create: bool = False,
    name: str | None = None,
    written: StoreOptions | None = None,
    login: Login | None = None,
    environ: Mapping[str, str] | None = None,
) -> Store:
    """The store at `url`, with `options` in which references are already resolved.

    `login` is the login for the machine of an `ssh://` URL, where the host name is not enough. `environ` is
    the environment of the login for an `az://` URL without key and SAS (default: that of the process).

    A folder that does not exist is a StoreError, or is created with `create`. A cloud is not asked yet.
    `name` and `written`, the options with their references, are for messages. Within the process, one
    `memory://` name is one store. UsageError for any other kind of URL.
    """
    scheme, mark, rest = url.partition("://")
    if mark and scheme == "file":
        return FileStore(_folder(url, rest), create=create)
    if mark and scheme == "memory":
        from gofer.storage.memory import MemoryStore

        return _memories.setdefault(rest, MemoryStore(rest))
    if mark and scheme == "ssh":
        from gofer.storage.ssh import SshAddress, SshStore
        from gofer.transport.ssh import Login, reach

        address = SshAddress.parse(url)
        return SshStore(reach(login or Login(address.host)), address, create=create)
    if mark and scheme in ("az", "s3", "gs"):
        # Most commands of a local run open no cloud store, so they load no code of the clouds.
        from gofer.storage.credentials import OpenedStore, remember_secrets

        entry = OpenedStore(url, options or _NOTHING, name, written or _NOTHING)
        remember_secrets(entry.options)
        return _cloud(scheme, entry, environ)
    if not mark:
        raise UsageError(f"`{url}` is not a store's URL", hint=f"the kinds are {_KINDS}")
    raise UsageError(f"no kind of store has URLs like `{url}`", hint=f"the kinds are {_KINDS}")


def _cloud(scheme: str, entry: OpenedStore, environ: Mapping[str, str] | None) -> Store:
    if scheme == "az":
        from gofer.storage.azure import AzureStore

        return AzureStore(entry, environ)
    if scheme == "s3":
        from gofer.storage.s3 import S3Store

        return S3Store(entry)
    try:
        from gofer.storage.gcs import GcsStore
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise UsageError(
            f"the store {entry.label} needs a package that is not installed: obstore",
            hint="`pip install 'gofer[gcs]'`",
        ) from None
    return GcsStore(entry)


def _folder(url: str, rest: str) -> Path:
    from urllib.parse import unquote

    host, slash, path = rest.partition("/")
    if not slash or host not in ("", "localhost"):
        raise UsageError(
            f"`{url}` does not name an absolute folder",
            hint="write it with three slashes: `file:///shared/gofer`",
        )
    return Path("/" + unquote(path, errors="surrogateescape"))
