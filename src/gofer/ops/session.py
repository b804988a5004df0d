"""The context of one command: settings, ledger, stores and backends, each opened when first needed.

A command that reads only the ledger, such as `gofer list runs`, loads neither settings nor backends. For this
reason some imports stand in methods of `Session`.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gofer.config.paths import Paths
from gofer.core.private_folder import ForeignFolder, close_to_writers
from gofer.core.queue_home import identity
from gofer.errors import CheckFailed, LedgerCorrupt, LedgerError
from gofer.ops.messages import LiveStatus
from gofer.text import printable
from gofer.tracking.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from gofer.backends.base import Backend
    from gofer.config.settings import Settings
    from gofer.ops.connections import Connections
    from gofer.ops.messages import AnyMessage
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow

T = TypeVar("T")


class Session:
    """The context of one command, for one thread. Creating one reads nothing. Close it, or use it in a `with`
    block.

    `emit` receives messages for the person (default: print them to stderr). `target` is the name given on the
    command line, if any. `ask` asks the person a yes-or-no question; None when nobody can answer.
    """

    def __init__(
        self,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        target: str | None = None,
        emit: Callable[[AnyMessage], None] | None = None,
        ask: Callable[[str], bool] | None = None,
    ) -> None:
        self.folder = Path.cwd() if folder is None else folder
        self.environ = dict(os.environ) if environ is None else environ
        self.target = target
        self.emit = emit or _print
        self.ask = ask

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the ledgers. Idempotent."""
        ledger = self.__dict__.pop("ledger", None)
        if ledger is not None:
            ledger.close()
        if "connections" in self.__dict__:
            self.connections.close()

    @cached_property
    def paths(self) -> Paths:
        """gofer's folders. The first use takes the permission to write existing folders from other users;
        CheckFailed for folders of other users.
        """
        found = Paths.from_environment(self.environ)
        _close_to_writers(found)
        return found

    @cached_property
    def queue_id(self) -> str:
        """The identity of this machine's queue, which is recorded with every run."""
        return identity(str(self.paths.queue_home))

    @cached_property
    def settings(self) -> Settings:
        """The settings of this folder. ConfigError for files that cannot be read as settings."""
        from gofer.ops.settings.load import load_settings

        return load_settings(self)

    @property
    def project(self) -> str:
        """The project of this folder, in the form of the ledger."""
        return os.path.realpath(self.settings.root)

    @cached_property
    def connections(self) -> Connections:
        """The stores and backends that this session has opened."""
        from gofer.ops.connections import Connections

        return Connections(self)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger. A damaged ledger is set aside and rebuilt from the stores, with a message."""
        try:
            return Ledger.open(self.paths.ledger_file)
        except LedgerCorrupt as error:
            # A damaged ledger is rare, and what reads stores would make every command start later.
            from gofer.ops.maintenance.rebuild import replace_damaged

            return replace_damaged(self, error)

    def store(self, name_or_url: str) -> Store:
        """The store of that name or URL, with its credentials from the settings. One object for each URL.
        Calls no service. UsageError for an unknown name.

        A URL that is missing in these settings is opened with the settings of a project that has
        runs there, by the ledger. The folder of the built-in store is created if absent.
        """
        return self.connections.store(name_or_url)

    def with_settings(self, settings: Settings) -> Session:
        """A session with other settings and the same ledger; this session if the settings are its own."""
        if settings is self.settings:
            return self
        other = Session(settings.folder, self.environ, self.target, self.emit, self.ask)
        other.__dict__["settings"] = settings
        if "ledger" in self.__dict__:
            other.__dict__["ledger"] = self.ledger
        return other

    def for_thread(self) -> Session:
        """A session with the same settings for another thread, which uses and closes it there."""
        other = Session(self.folder, self.environ, self.target, self.emit, self.ask)
        if "settings" in self.__dict__:
            other.__dict__["settings"] = self.settings
        return other

    def of_run(self, row: RunRow) -> Session:
        """The session of the project that a run came from; TargetGone when no settings have its target."""
        return self.connections.of_run(row)

    def definition(self, key: str) -> str | None:
        """What the ledger says about a target in the settings of its project; None when the ledger cannot be
        opened. Does not need `ledger`, which may be under repair.
        """
        return self._ask_ledger(lambda ledger: ledger.definition(key), None)

    def definitions_at(self, url: str) -> list[str]:
        """The definitions of targets whose runs are in the store, as ids; errors as in `definition`."""
        return self._ask_ledger(lambda ledger: ledger.definitions_at(url), [])

    def _ask_ledger(self, ask: Callable[[Ledger], T], otherwise: T) -> T:
        if "ledger" in self.__dict__:
            return ask(self.ledger)
        try:
            with Ledger.open(self.paths.ledger_file) as ledger:
                return ask(ledger)
        except LedgerError:
            return otherwise

    def runs_in(self, name_or_url: str) -> Store:
        """The store for reading runs: a file that is stored in parts is read as one file."""
        return self.connections.runs_in(name_or_url)

    def run_folder(self, row: RunRow, *, whole: bool = False) -> RunFolder:
        """The folder of a run in its store, not listed yet. `whole`: see `RunFolder`."""
        return self.connections.run_folder(row, whole=whole)

    def store_url_of(self, target: str, placement: str = "") -> str:
        """The URL of the store for the runs of a target. For a target on another machine, a `file://` URL of
        the settings means a folder of that machine, and the result is an `ssh://` URL.

        `placement` is the machine that was chosen for a run, for a target with several machines.
        """
        return self.connections.store_url_of(target, placement)

    def backend(self, target: str, placement: str = "") -> Backend:
        """The backend of a target with the present settings. Calls no service. UnknownName without such a
        target, UsageError when its options cannot be used.

        `placement` is the machine that was chosen for a run, for a target with several machines.
        """
        return self.connections.backend(target, placement)

    def backend_of(self, row: RunRow) -> Backend:
        """The backend of a run, also outside of the run's project (see `gofer.ops.runs.run_origin`), with the
        store to which the run was sent. TargetGone when no settings say how the target is reached; runs of
        this machine's queue need no settings.
        """
        return self.connections.backend_of(row)

    def azure_environ(self, owner: str, named: str | None = None) -> Mapping[str, str]:
        """The environment of the Azure login that `owner` uses. `named` is the profile in the settings of
        `owner`, if any. UnknownName when that profile does not exist.
        """
        # Only stores and targets of Azure have logins of this kind: other commands start without this code.
        from gofer.ops.accounts.azure_profiles import Profiles

        return Profiles.of(self.environ).environ_for(owner, named)


def _print(message: AnyMessage) -> None:
    """Print a message. Control characters are removed, since messages may quote text of others.

    A stderr that cannot be written is ignored. What is shown in place needs an interface, and is not printed.
    """
    if isinstance(message, LiveStatus):
        return
    with suppress(OSError):
        print("\n".join(printable(line) for line in str(message).split("\n")), file=sys.stderr, flush=True)


def _close_to_writers(paths: Paths) -> None:
    """Close gofer's folders to other writers: with write access, another user could run code as the owner."""
    for file in (paths.ledger_file, paths.cache_dir / "any", paths.store_dir, paths.config_file):
        try:
            close_to_writers(file.parent)
        except ForeignFolder as error:
            if file is not paths.config_file:  # the settings may belong to another user: see docs/SECURITY.md
                raise CheckFailed(str(error)) from None
        except OSError:
            pass  # the disk is read-only
