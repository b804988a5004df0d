"""Resolve a word on the command line: a path in a mapped folder, `store:path`, `run:path`, a URL, or a local
path.

`data/voc20` is the folder `data` of the chosen target and the path `voc20` in it. The word is read from the
current folder, so that it also works below the project's folder and as an absolute path.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.folders import folders_of
from gofer.core import folder_modes
from gofer.errors import GoferError, UnknownName, UsageError
from gofer.ops.files.run_store import RunView, names_run, view_of
from gofer.ops.messages import Message
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.config.folders import MappedFolder
    from gofer.config.settings import Settings
    from gofer.ops.session import Session
    from gofer.storage.base import Store

# A store with such a name could be mistaken for a run.
_MAY_BE_RUN = re.compile(r"[0-9a-z]{6}|r\d{6}-\d{6}-[0-9a-z]+")
_LOCAL = ("./", "../", "/", "~")


class StorePath(NamedTuple):
    """A path in a store.

    `top` is the key of the mapped folder or store that the word names, `label` its name for people, and
    `here` the same folder on this machine, if it is a mapped folder. `slash`: the word ended with a slash, so
    it means a folder.
    """

    store: Store
    key: str
    top: str
    label: str
    here: Path | None = None
    slash: bool = False

    @property
    def inside(self) -> str:
        """The path below `top`."""
        return self.key[len(self.top) :].lstrip("/")

    @property
    def local(self) -> Path | None:
        """The same path on this machine, if it is in a mapped folder."""
        return self.here / self.inside if self.here else None

    @property
    def is_whole(self) -> bool:
        """Whether this is a whole mapped folder or a whole store."""
        return self.key == self.top

    def name(self, key: str) -> str:
        """A key at or below `top` in the person's words."""
        rest = key[len(self.top) :].lstrip("/")
        return self.label + (f"/{rest}" if rest and not self.label.endswith((":", "/")) else rest)

    def __str__(self) -> str:
        return self.name(self.key)

    def at(self, key: str) -> StorePath:
        """The place of another key at or below `top`."""
        return self._replace(key=key, slash=False)


def data_target(settings: Settings, named: str | None) -> str:
    """The target whose folders are used: the named one, else the default target."""
    return named or settings.default_target


def resolve(session: Session, word: str, target: str | None = None) -> StorePath:
    """The place that `word` names; UnknownName, with a list of the folders, when it names none."""
    if not word:
        raise UsageError("the path is empty", hint="name a path, for example `data/voc20`")
    if "://" in word:
        return _from_url(session, word)
    name = data_target(session.settings, target)
    folders = folders_of(session.settings, name)
    found = _mapped(session, word, folders)
    if found:
        return found
    store, colon, path = word.partition(":")
    if colon and store and (place := _in_store(session, store, path) or _in_run(session, store, path)):
        return place
    raise _unmapped(session, word, name, folders)


def resolve_end(session: Session, word: str, target: str | None = None) -> StorePath | Path:
    """Like `resolve`, for commands that also take local paths: `./x`, `../x`, `/x`, `~/x`, `.`, and any word
    that names no mapped folder and no store.
    """
    if word in (".", "..") or word.startswith(_LOCAL):
        return Path(os.path.abspath(session.folder / os.path.expanduser(word)))
    if word.startswith("file://") and not _store_of(session, word):
        return _file_path(word)
    try:
        return resolve(session, word, target)
    except UnknownName:
        if "://" in word or (":" in word and not os.path.lexists(session.folder / word)):
            raise
        return Path(os.path.abspath(session.folder / word))


def check_changeable(place: StorePath) -> None:
    """StoreError for a place among the files of a run, before anything is counted, compared or asked."""
    if isinstance(place.store, RunView):
        raise place.store.is_fixed()


def _mapped(session: Session, word: str, folders: dict[str, MappedFolder]) -> StorePath | None:
    path = os.path.normpath(session.folder / os.path.expanduser(word))
    slash = word.endswith("/")
    for folder in folders.values():
        here = os.path.normpath(folder.root / folder.name)
        if path == here or path.startswith(f"{here}/"):
            return _place(session, folder, path[len(here) + 1 :], slash)
    # In a subfolder of the project, `data/x` still means the project's mapped folder.
    first, _, rest = os.path.normpath(word).partition("/")
    if first not in folders or os.path.isabs(word):
        return None
    if os.path.lexists(path):
        raise UsageError(
            f"`{word}` is both `{path}` and a path in the mapped folder `{folders[first].root / first}`",
            hint=f"run the command in `{folders[first].root}`, or write the absolute path",
        )
    return _place(session, folders[first], rest, slash)


def _place(session: Session, folder: MappedFolder, rest: str, slash: bool) -> StorePath:
    folder.check()
    top = folder_modes.path_of_all_runs(folder.path)
    key = "/".join(part for part in (top, rest) if part)
    return StorePath(session.store(folder.store), key, top, folder.name, folder.root / folder.name, slash)


def _in_store(session: Session, name: str, path: str) -> StorePath | None:
    try:
        session.settings.store(name)
    except UnknownName:
        return None
    _say_if_run(session, name)
    return StorePath(session.store(name), path.strip("/"), "", f"{name}:", None, path.endswith("/"))


def _in_run(session: Session, name: str, path: str) -> StorePath | None:
    """A path among the files that a run left."""
    key = path.strip("/")
    found = view_of(session, name, key)
    if found is None:
        return None
    view, row = found
    if key and not path.endswith("/"):
        view.say_if_both(key)
    return StorePath(view, key, "", f"{row.short_id}:", None, path.endswith("/"))


def _say_if_run(session: Session, name: str) -> None:
    """Tell the person when a word names both a store and a run: the store is used."""
    if not _MAY_BE_RUN.fullmatch(name) or not session.paths.ledger_file.exists():
        return
    if names_run(session, name):
        session.emit(
            Message(
                f"`{name}:` means the store of that name; a run has the id `{name}` too, and its "
                "full id names it"
            )
        )


def _from_url(session: Session, url: str) -> StorePath:
    """The place of a URL. A URL below that of a store in the settings uses this store's credentials."""
    slash = url.endswith("/")
    held = _store_of(session, url)
    if held:
        name, key = held
        root = session.settings.store(name).url.rstrip("/")
        return StorePath(session.store(name), key, "", f"{root}/", None, slash)
    if url.startswith("file://"):
        path = _file_path(url)
        folder = next((one for one in (path, *path.parents) if one.is_dir()), path)
        key = "" if path == folder else str(path.relative_to(folder))
        return StorePath(session.store(folder.as_uri()), key, "", f"{folder.as_uri()}/", None, slash)
    scheme, _, rest = url.partition("://")
    container, _, key = rest.partition("/")
    root = f"{scheme}://{container}"
    return StorePath(session.store(root), key.strip("/"), "", f"{root}/", None, slash)


def _store_of(session: Session, url: str) -> tuple[str, str] | None:
    """The store of the settings with the longest URL that contains `url`, and the key in it.

    A URL without the account is accepted too. UsageError when it could mean two stores.
    """
    found: dict[str, tuple[int, str]] = {}
    for name in session.settings.store_names:
        whole = session.settings.store(name).url.rstrip("/")
        for root in (whole, _without_account(whole)):
            if url.rstrip("/") == root or url.startswith(f"{root}/"):
                found[name] = (len(root), url[len(root) :].strip("/"))
                break
    longest = max((length for length, _ in found.values()), default=0)
    best = [name for name, (length, _) in found.items() if length == longest]
    if len(best) > 1:
        raise UsageError(
            f"`{url}` may mean the stores {' and '.join(f'`{name}`' for name in best)}",
            hint=f"write `{best[0]}:{found[best[0]][1]}`",
        )
    return (best[0], found[best[0]][1]) if best else None


def _without_account(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    container, slash, path = rest.partition("/")
    return f"{scheme}{mark}{container.partition('@')[0]}{slash}{path}"


def _file_path(url: str) -> Path:
    from urllib.parse import unquote

    text = unquote(url.partition("://")[2].lstrip("/"), errors="surrogateescape")
    return Path(os.path.normpath(f"/{text}"))


def _unmapped(session: Session, word: str, target: str, folders: dict[str, MappedFolder]) -> UnknownName:
    first = word.partition("/")[0]
    hint = did_you_mean(first, folders)
    if not hint and folders:
        names = ", ".join(f"`{name}`" for name in sorted(folders))
        hint = f"the folders are {names}; `STORE:path` and URLs work too"
    other = None if hint else _target_with(session, first)
    if other:
        hint = f"the target `{other}` has such a folder: `gofer -c {other} …`"
    if not hint:
        stores = ", ".join(f"`{name}`" for name in session.settings.store_names)
        hint = "map one under `folders:` in gofer.yaml, or write `STORE:path` or `RUN:path`; "
        hint += f"the stores are {stores}"
    return UnknownName(f"`{word}` is in no mapped folder of the target `{target}`", hint=hint)


def _target_with(session: Session, folder: str) -> str | None:
    """A target that maps a folder of this name; None when there is none. Targets that cannot be read are
    skipped.
    """
    for name in session.settings.target_names:
        with suppress(GoferError):
            if folder in folders_of(session.settings, name):
                return name
    return None
