"""Targets and stores that the files of another tool describe: the contract between the settings and a reader.

The settings know a `TargetProvider` and nothing of any tool. The caller of `settings.load` passes a function
that finds a provider (`FindTargets`). An entry of a provider is a node, as if `gofer.yaml` had it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gofer.config.yaml.nodes import Node, Table, ValueOrigin
from gofer.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from gofer.config.settings import Settings


class UnusedKey(NamedTuple):
    """A key of a file that gofer does not use, and why."""

    key: str
    node: Node
    why: str


class ImportedTarget(NamedTuple):
    """One target of a provider. `node` is its entry of `targets:`; its folders are relative to `root`.

    `problems` are mapped folders that gofer cannot provide, by name. `notes` are for a person whose command
    on this target fails. `accounts` are the account files that the target uses.
    """

    node: Table
    root: Path
    problems: Mapping[str, tuple[str, ValueOrigin]]
    accounts: tuple[Path, ...]
    unused: tuple[UnusedKey, ...]
    notes: tuple[str, ...] = ()


class TargetProvider(Protocol):
    """The files of one project. A provider reads the file of a target when the target is needed, and writes
    nothing.
    """

    @property
    def label(self) -> str:
        """What marks the folder of the project, as messages name it: `aux_data/aml`."""

    @property
    def holder(self) -> Path | None:
        """The folder at or above the command's that has the label; None when a variable names a file."""

    @property
    def names(self) -> list[str]:
        """The targets, sorted."""

    @property
    def default(self) -> str | None:
        """The default target of these files; None leaves the choice to the settings."""

    @property
    def files(self) -> list[Path]:
        """Every file that `gofer config import` would read."""

    def path(self, name: str) -> Path:
        """The file of a target; KeyError when there is none."""

    def check_target(self, name: str) -> None:
        """ConfigError for a file that is no target by itself."""

    def target(self, name: str, taken: Collection[str]) -> ImportedTarget:
        """The target of that name; `taken` are names of stores in use. ConfigError for a bad file."""

    def secret(self, name: str) -> str | None:
        """A secret that a file of the provider holds; None for any other."""

    def store(self, name: str) -> Table | None:
        """An entry of `stores:`; None when the provider has no store of that name."""

    def store_name(self, account_file: Path, taken: Collection[str]) -> str:
        """The name of the store that an account file describes."""

    def account(self, account_file: Path) -> Table:
        """The entry of `stores:` that an account file describes; ConfigError for a bad file."""

    def files_with_credentials(self, accounts: Iterable[Path]) -> list[Path]:
        """Those of the account files, and of the provider's own, that hold a key or a token in plain text."""


# From the folder of a command, the person's home and the environment; None when no file describes anything.
FindTargets = Callable[[Path, Path, Mapping[str, str]], TargetProvider | None]


def imported_accounts(settings: Settings) -> Iterator[Path]:
    """The account files that imported targets use, each once; a target that cannot be read has none."""
    seen: set[Path] = set()
    for name in settings.provider.names if settings.provider else ():
        with suppress(ConfigError, UnknownName):
            target = settings.imported(name)
            for path in target.accounts if target else ():
                if path not in seen:
                    seen.add(path)
                    yield path


def imported_store_names(settings: Settings) -> list[str]:
    """The stores that imported targets use."""
    provider, taken = settings.provider, settings.store_names
    if provider is None:
        return []
    return sorted(provider.store_name(path, taken) for path in imported_accounts(settings))


def files_with_credentials(settings: Settings) -> list[Path]:
    """Account files of the project that hold a key or a token in plain text: no snapshot may have them."""
    return settings.provider.files_with_credentials(imported_accounts(settings)) if settings.provider else []
