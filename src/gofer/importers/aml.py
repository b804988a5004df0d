"""`aux_data/aml/NAME.yaml` of the older Azure tools: which there are, and what each builds on.

`_base_: other.yaml`, relative to the file, names the file it builds on; single values of a file override
those of its base. Paths are relative to the project, the folder that holds `aux_data`. The module `act`
explains the keys. A file is read only when its target is used. Where a file has a `_base_`, all files are
read, because a base may be no target by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.config.project import find_above
from gofer.config.yaml.document import display, read_document, read_text
from gofer.config.yaml.nodes import Node, Scalar, Table, is_null, merged
from gofer.errors import ConfigError
from gofer.importers.account import read_account

if TYPE_CHECKING:
    from gofer.config.target_provider import ImportedTarget

FOLDER = Path("aux_data", "aml")
ACCOUNTS = Path("aux_data", "configs")
VARIABLE = "AML_CONFIG_PATH"
DEFAULT_NAME = "aml"
LABEL = str(FOLDER)
_SUFFIX = ".yaml"
_MOST_BASES = 20
_BASE = "_base_"
# Without these a file says nowhere to run. What others build on may well lack them.
_NEEDED = ("aml_config", "compute_target")


class AmlFiles:
    """The files of one project, a `TargetProvider`.

    `names` looks for a `_base_` in each file, and reads no further where there is none. A file that cannot be
    read is an error only when its own target is used.
    """

    label = LABEL

    def __init__(self, root: Path, named: Path | None = None, holder: Path | None = None) -> None:
        self.root = root
        self.holder = holder  # the folder at or above the command's that holds `aux_data/aml`
        self._named = named

    @cached_property
    def _paths(self) -> dict[str, Path]:
        folder = self.root / FOLDER
        names = os.listdir(folder) if folder.is_dir() else []
        found = {name.removesuffix(_SUFFIX): folder / name for name in names if name.endswith(_SUFFIX)}
        return {**found, **({self._named.stem: self._named} if self._named else {})}

    @property
    def _listed(self) -> list[str]:
        return sorted(name for name in self._paths if name and not name.startswith("."))

    @property
    def names(self) -> list[str]:
        """The targets: every file but those that others build on and that cannot stand alone."""
        return [name for name in self._listed if name not in self._mere_bases]

    @cached_property
    def _mere_bases(self) -> dict[str, list[str]]:
        """The files that are no targets by themselves, with the names of those that build on them.

        What is meant when nothing is named is a target whatever it says: a run goes there, or nowhere.
        """
        chains = {name: chain for name in self._listed if (chain := _chain_of(self._paths[name]))}
        found: dict[str, list[str]] = {}
        for name in self._listed:
            path = Path(os.path.normpath(self._paths[name]))
            above = [other for other, chain in chains.items() if path in chain]
            if above and name != self.default and not _can_stand(path):
                found[name] = above
        return found

    def check_target(self, name: str) -> None:
        """ConfigError for a file that only others build on."""
        if name in self._mere_bases:
            path, needed = display(self._paths[name]), " and ".join(f"`{key}`" for key in _NEEDED)
            above = ", ".join(f"`{one}`" for one in self._mere_bases[name] if one in self.names)
            raise ConfigError(
                f"`{path}` is no target by itself: it needs {needed}",
                hint=f"name one that builds on it: {above}" if above else None,
            )

    @property
    def default(self) -> str | None:
        """What is meant when nothing is named: the variable's file, else `aml.yaml` when it is there."""
        if self._named:
            return self._named.stem
        return DEFAULT_NAME if DEFAULT_NAME in self._paths else None

    @property
    def files(self) -> list[Path]:
        """The variable's file alone, where it is set; else every file, targets or not."""
        return [self._named] if self._named else [self._paths[name] for name in self._listed]

    def path(self, name: str) -> Path:
        """The file of that name; KeyError when there is none."""
        return self._paths[name]

    def store_name(self, account_file: Path, taken: Collection[str]) -> str:
        """How the account's store is called: the file's name when it lies where it should, else its path."""
        stem = account_file.stem
        usual = account_file == self.root / ACCOUNTS / f"{stem}{_SUFFIX}" and account_file.is_file()
        return stem if usual and stem not in taken else os.path.relpath(account_file, self.root)

    def account_file(self, store: str) -> Path | None:
        """The file of the store of that name; None when it cannot be one. A path need not lead anywhere."""
        if "/" in store:
            return self.root / store if store.endswith((_SUFFIX, ".yml")) else None
        path = self.root / ACCOUNTS / f"{store}{_SUFFIX}"
        return path if path.is_file() else None

    # What the files say is read by modules that are imported only when somebody asks: every command asks for
    # the names.

    def target(self, name: str, taken: Collection[str]) -> ImportedTarget:
        from gofer.importers.act_targets import read_imported

        return read_imported(self, name, taken)

    def secret(self, name: str) -> str | None:
        from gofer.importers.act_targets import imported_secret

        return imported_secret(self, name)

    def store(self, name: str) -> Table | None:
        from gofer.importers.act_targets import imported_store

        return imported_store(self, name)

    def account(self, account_file: Path) -> Table:
        return read_account(account_file)

    def files_with_credentials(self, accounts: Iterable[Path]) -> list[Path]:
        from gofer.importers.act_targets import files_with_credentials

        return files_with_credentials(self, accounts)


def find_aml(folder: Path, home: Path, environ: Mapping[str, str]) -> AmlFiles | None:
    """The files of the nearest project in `folder` or above it, and that of AML_CONFIG_PATH; None without."""
    held = find_above(folder, home, str(FOLDER))
    holder = root = held.parents[1] if held else None
    given = environ.get(VARIABLE)
    if not given:
        return AmlFiles(root, None, root) if root else None
    named = Path(os.path.normpath(folder / os.path.expanduser(given)))
    if named.parent.parts[-2:] == FOLDER.parts:
        root = named.parents[2]
    return AmlFiles(root or folder, named, holder)


def _chain_of(path: Path) -> list[Path]:
    """What the file builds on, nearest first; nothing where it says none, or cannot be read."""
    with suppress(ConfigError):
        if os.path.isfile(path) and _BASE in read_text(path):
            return [*_read_chain(path, read_document)][1:]
    return []


def _can_stand(path: Path) -> bool:
    """Like `stands_alone`. True for a file that cannot be read: its error is reported when the target is
    used.
    """
    try:
        return stands_alone(path, read_document)
    except ConfigError:
        return True


def stands_alone(path: Path, read: Callable[[Path], Table]) -> bool:
    """Whether the file, with what it builds on, says where to run: what only others build on need not."""
    entries = join_chain(own_keys(read_chain(path, read))).entries
    return all(key in entries and not is_null(entries[key]) for key in _NEEDED)


def own_keys(chain: Iterable[Table]) -> list[Table]:
    """The tables without the key `_base_`."""
    return [
        Table({key: node for key, node in one.entries.items() if key != _BASE}, one.place) for one in chain
    ]


def join_chain(tables: Sequence[Table]) -> Table:
    """One table out of several, the nearest first; its place is that of the nearest."""
    joined: Node = tables[-1]
    for upper in reversed(tables[:-1]):
        joined = merged(joined, upper) or joined
    assert isinstance(joined, Table)
    return Table(joined.entries, tables[0].place)


def read_chain(path: Path, read: Callable[[Path], Table] = read_document) -> list[Table]:
    """The file, what it builds on, what that builds on, and so on; ConfigError for a circle."""
    return [*_read_chain(path, read).values()]


def _read_chain(path: Path, read: Callable[[Path], Table]) -> dict[Path, Table]:
    chain: dict[Path, Table] = {}
    following: Path | None = path
    while following:
        if following in chain or len(chain) == _MOST_BASES:
            last = display([*chain][-1])
            raise ConfigError(f"`_base_` leads from `{display(path)}` in a circle", where=last)
        chain[following] = read(following)
        following = base_of(following, chain[following])
    return chain


def base_of(path: Path, table: Table) -> Path | None:
    """The file that this one builds on; None when it builds on none."""
    base = table.entries.get(_BASE)
    if not isinstance(base, Scalar) or base.is_null:
        return None
    return Path(os.path.normpath(path.parent / os.path.expanduser(base.text)))
