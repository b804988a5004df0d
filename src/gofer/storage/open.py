"""From a URL to a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gofer.errors import UsageError

if TYPE_CHECKING:
    from gofer.storage.base import Store
    from gofer.storage.memory import MemoryStore

_KINDS = "`file:///shared/gofer` (a folder), `memory://name` (this process only)"
_memories: dict[str, MemoryStore] = {}


def open_store(url: str, *, create: bool = False) -> Store:
    """The store at `url`. A folder that is not there is StoreError, or made with `create`.

    One `memory://` name is one store within the process. UsageError for any other kind of URL.
    """
    scheme, mark, rest = url.partition("://")
    if mark and scheme == "file":
        from gofer.storage.file import FileStore

        return FileStore(_folder(url, rest), create=create)
    if mark and scheme == "memory":
        from gofer.storage.memory import MemoryStore

        return _memories.setdefault(rest, MemoryStore(rest))
    if not mark:
        raise UsageError(f"`{url}` is not a store's URL", hint=f"the kinds are {_KINDS}")
    raise UsageError(f"no store speaks `{scheme}://`, asked for by `{url}`", hint=f"the kinds are {_KINDS}")


def _folder(url: str, rest: str) -> Path:
    from urllib.parse import unquote

    host, slash, path = rest.partition("/")
    if not slash or host not in ("", "localhost"):
        raise UsageError(
            f"`{url}` does not name an absolute folder",
            hint="write it with three slashes: `file:///shared/gofer`",
        )
    return Path("/" + unquote(path, errors="surrogateescape"))
