"""The context of one command: settings, ledger, stores and backends, each opened when first needed."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gofer.config.paths import Paths
from gofer.errors import CheckFailed, LedgerCorrupt, LedgerError, TargetGone, UsageError
from gofer.snapshot.repository import find_root
from gofer.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from gofer.backends.base import Backend
    from gofer.backends.kind import BackendContext, BlobPlace
    from gofer.config.settings import Settings
    from gofer.config.stores import StoreEntry
    from gofer.config.targets import Target
    from gofer.ops.messages import AnyMessage
    from gofer.ops.runs.run_folder import RunFolder
    from gofer.storage.base import Store
    from gofer.tracking.ledger import Ledger, RunRow
    from gofer.transport.ssh import Login

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
        self._stores: dict[str, Store] = {}
        self._backends: dict[tuple[str, str, str], Backend] = {}
        # Sessions of other projects, by (definition, URL) or by (origin, target, kind).
        self._others: dict[tuple[str, ...], Session] = {}

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
        for other in self._others.values():
            if other is not self:
                other.close()

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
        from gofer.core.queue_home import identity

        return identity(str(self.paths.queue_home))

    @cached_property
    def settings(self) -> Settings:
        from gofer.backends.registry import Kinds
        from gofer.config.settings import load
        from gofer.importers.aml import find_aml

        return load(
            self.folder,
            paths=self.paths,
            environ=self.environ,
            kinds=Kinds(),
            repository=self._repository_of,
            find_targets=find_aml,
        )

    def _repository_of(self, folder: Path) -> Path | None:
        return find_root(folder, self.environ)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger. A damaged ledger is set aside and rebuilt from the stores, with a message."""
        from gofer.tracking.ledger import Ledger

        try:
            return Ledger.open(self.paths.ledger_file)
        except LedgerCorrupt as error:
            from gofer.ops.maintenance.rebuild import replace_damaged

            return replace_damaged(self, error)

    def store(self, name_or_url: str) -> Store:
        """The store of that name or URL, with its credentials from the settings. One object for each URL.
        Calls no service. UsageError for an unknown name.

        A URL that is missing in these settings is opened with the settings of a project that has
        runs there, by the ledger. The folder of the built-in store is created if absent.
        """
        if name_or_url in self._stores:
            return self._stores[name_or_url]
        if "://" in name_or_url and not self._knows(name_or_url):
            for other in self._sessions_at(name_or_url):
                self._stores[name_or_url] = other.store(name_or_url)
                return self._stores[name_or_url]
        entry = self._entry(name_or_url)
        if entry.url not in self._stores:
            self._stores[entry.url] = self._open(entry)
        return self._stores[entry.url]

    def _knows(self, url: str) -> bool:
        """Whether the settings have exactly this URL, or the URL needs no settings."""
        if url.startswith(("file://", "memory://")):
            return True
        with suppress(UsageError):  # the error is raised again when the store is opened
            host = _ssh_host(url)
            if host:
                return any(self.store_url_of(name, host) == url for name, _ in self._logins(host))
            entry = self.settings.store_at(url)
            return entry is not None and self.settings.store(entry.name).url == url
        return False

    def _sessions_at(self, url: str) -> Iterator[Session]:
        """A session for each definition of a target whose runs are in the store."""
        from gofer.ops.runs.run_origin import settings_of_definition

        for key in self._definitions_at(url):
            if (key, url) not in self._others:
                sessions = (self._with(settings) for settings in settings_of_definition(self, key))
                found = next((one for one in sessions if one is not self and one._knows(url)), None)
                if found is None:
                    continue
                self._others[key, url] = found
            yield self._others[key, url]

    def _with(self, settings: Settings) -> Session:
        """A session with other settings and the same ledger; this session if the settings are its own."""
        if settings is self.settings:
            return self
        other = Session(settings.folder, self.environ, self.target, self.emit, self.ask)
        other.__dict__["settings"] = settings
        if "ledger" in self.__dict__:
            other.__dict__["ledger"] = self.ledger
        return other

    def of_run(self, row: RunRow) -> Session:
        """The session of the project that a run came from; TargetGone when no settings have its target."""
        from gofer.ops.runs.run_origin import settings_of_run

        key = (row.origin, row.target, row.backend)
        if key not in self._others:
            self._others[key] = self._with(settings_of_run(self, row))
        return self._others[key]

    def definition(self, key: str) -> str | None:
        """What the ledger says about a target in the settings of its project; None when the ledger cannot be
        opened. Does not need `ledger`, which may be under repair.
        """
        return self._ask_ledger(lambda ledger: ledger.definition(key), None)

    def _definitions_at(self, url: str) -> list[str]:
        return self._ask_ledger(lambda ledger: ledger.definitions_at(url), [])

    def _ask_ledger(self, ask: Callable[[Ledger], T], otherwise: T) -> T:
        from gofer.tracking.ledger import Ledger

        if "ledger" in self.__dict__:
            return ask(self.ledger)
        try:
            with Ledger.open(self.paths.ledger_file) as ledger:
                return ask(ledger)
        except LedgerError:
            return otherwise

    def runs_in(self, name_or_url: str) -> Store:
        """The store for reading runs: a file that is stored in parts is read as one file."""
        from gofer.ops.logs.joined_parts import JoinedStore
        from gofer.storage.base import OnDisk

        store = self.store(name_or_url)
        return store if isinstance(store, OnDisk) else JoinedStore(store)

    def run_folder(self, row: RunRow, *, whole: bool = False) -> RunFolder:
        """The folder of a run in its store, not listed yet. `whole`: see `RunFolder`."""
        from gofer.ops.runs.run_folder import RunFolder

        return RunFolder(self.runs_in(row.store), row.id, whole=whole)

    def _entry(self, name_or_url: str) -> StoreEntry:
        from gofer.config.stores import StoreEntry

        if "://" not in name_or_url:
            return self.settings.store(name_or_url)
        unknown = StoreEntry("", name_or_url, "")
        if name_or_url.startswith(("file://", "memory://")):
            return unknown
        return self.settings.store_at(name_or_url) or unknown

    def _open(self, entry: StoreEntry) -> Store:
        from gofer.storage.open import open_store

        by_login = entry.url.startswith("az://") and not (entry.options.key or entry.options.sas)
        login = self._login_to(entry.url)
        own = self.paths.store_dir.as_uri() if login is None else _own_store(login)
        return open_store(
            entry.url,
            entry.options.resolved(self.settings.resolve) if any(entry.options) else None,
            create=entry.url == own,
            name=entry.name or None,
            written=entry.options,
            login=login,
            environ=self.azure_environ(_owner(entry), entry.options.profile) if by_login else None,
        )

    def _login_to(self, url: str) -> Login | None:
        """The login for the machine of a store, from a target that uses the machine; None when no target
        does, and for other stores.
        """
        host = _ssh_host(url)
        logins = [login for _, login in self._logins(host)] if host else []
        return next((login for login in logins if _own_store(login) == url), logins[0] if logins else None)

    def _logins(self, host: str) -> list[tuple[str, Login]]:
        """The targets that use the machine, each with its login."""
        from gofer.backends import registry
        from gofer.config.nodes import table

        names = table(self.settings.section("targets"))  # targets of imported files never use SSH
        targets = (self.settings.target(name) for name in names)
        found = [(one.name, registry.find(one.kind).login(one.options, host)) for one in targets]
        return [(name, login) for name, login in found if login is not None and login.host == host]

    def store_url_of(self, target: str, placement: str = "") -> str:
        """The URL of the store for the runs of a target. For a target on another machine, a `file://` URL of
        the settings means a folder of that machine, and the result is an `ssh://` URL.

        `placement` is the machine that was chosen for a run, for a target with several machines.
        """
        from gofer.backends import registry

        found = self.settings.target(target)
        url = self.settings.store(found.store).url
        login = registry.find(found.kind).login(found.options, placement)
        if login is None or not url.startswith("file://"):
            return url
        if url == self.paths.store_dir.as_uri():
            return _own_store(login)
        return f"ssh://{login.host}/{url.removeprefix('file://').lstrip('/')}"

    def backend(self, target: str, placement: str = "") -> Backend:
        """The backend of a target with the present settings. Calls no service. UnknownName without such a
        target, UsageError when its options cannot be used.

        `placement` is the machine that was chosen for a run, for a target with several machines.
        """
        found = self.settings.target(target)
        try:
            return self._make(found, self.store_url_of(target, placement), placement)
        except UsageError as error:
            imported = self.settings.imported(target)
            if imported and imported.notes:
                error.hint = "; ".join(imported.notes)
            raise

    def backend_of(self, row: RunRow) -> Backend:
        """The backend of a run, also outside of the run's project (see `gofer.ops.runs.run_origin`), with the
        store to which the run was sent. TargetGone when no settings say how the target is reached; runs of
        this machine's queue need no settings.
        """
        try:
            own = self.of_run(row)
        except TargetGone:
            from gofer.backends import registry

            if not registry.runs_here(row.backend):
                raise
            # All targets on this machine share one queue, so the name of the target does not matter.
            return self._make(self._usual_target(row), row.store)
        # If each machine has its own store, the URL of the store names the machine.
        return own._make(own.settings.target(row.target), row.store, _ssh_host(row.store))

    def _usual_target(self, row: RunRow) -> Target:
        from gofer.backends import registry
        from gofer.config.nodes import BUILT_IN
        from gofer.config.targets import Target

        options = registry.find(row.backend).options()
        return Target(row.target, row.backend, "default", options, None, BUILT_IN)

    def _make(self, target: Target, store_url: str, placement: str = "") -> Backend:
        from gofer.backends import registry

        key = (target.name, store_url, placement)
        if key not in self._backends:
            context = self._context(target, store_url, placement)
            self._backends[key] = registry.find(target.kind).make(target.options, context)
        return self._backends[key]

    def _context(self, target: Target, store_url: str, placement: str) -> BackendContext:
        from gofer.backends import registry
        from gofer.backends.kind import BackendContext
        from gofer.ops.images.wrap import complete_image
        from gofer.storage.base import Delegates, OnDisk, OnMachine
        from gofer.transport.machine import LocalMachine
        from gofer.transport.ssh import reach

        store, capabilities = self.store(store_url), registry.capabilities_of(target)
        login = registry.find(target.kind).login(target.options, _ssh_host(store_url))
        machine = LocalMachine() if login is None else reach(login)
        path = None
        if login is None and isinstance(store, OnDisk):
            path = str(store.path("runs").parent)
        elif isinstance(store, OnMachine) and store.machine.name == machine.name:
            path = store.folder
        return BackendContext(
            target.name,
            str(self.paths.queue_home),
            store_url,
            path,
            isinstance(store, Delegates),
            machine,
            self._blob_place,
            lambda: self.azure_environ(f"the target `{target.name}`", capabilities.profile),
            placement,
            complete_image(self, capabilities),
        )

    def _blob_place(self, url: str) -> BlobPlace | None:
        """The place of a store in Azure Blob Storage; None for other stores."""
        from gofer.backends.kind import BlobPlace

        found = getattr(self.store(url), "blob_place", None) if url.startswith("az://") else None
        return None if found is None else BlobPlace(*found)

    def azure_environ(self, owner: str, named: str | None = None) -> Mapping[str, str]:
        """The environment of the Azure login that `owner` uses. `named` is the profile in the settings of
        `owner`, if any. UnknownName when that profile does not exist.
        """
        from gofer.ops.accounts.azure_profiles import Profiles

        return Profiles.of(self.environ).environ_for(owner, named)


def config_schema() -> dict[str, Any]:
    """The JSON Schema of gofer.yaml, with the options of every kind of target."""
    from gofer.backends.registry import Kinds
    from gofer.config.schema import project_schema

    return project_schema(Kinds())


def _ssh_host(url: str) -> str:
    """The host of a store on a machine over SSH; "" for other stores."""
    return url.removeprefix("ssh://").partition("/")[0] if url.startswith("ssh://") else ""


def _own_store(login: Login) -> str:
    """The default store of targets on another machine: in gofer's own folder there."""
    return f"ssh://{login.host}/{login.folder.lstrip('/')}/store"


def _owner(entry: StoreEntry) -> str:
    return f"the store `{entry.name or entry.url}`"


def _print(message: AnyMessage) -> None:
    """Print a message. Control characters are removed, since messages may quote text of others.

    A stderr that cannot be written is ignored.
    """
    with suppress(OSError):
        print("\n".join(printable(line) for line in str(message).split("\n")), file=sys.stderr, flush=True)


def _close_to_writers(paths: Paths) -> None:
    """Close gofer's folders to other writers: with write access, another user could run code as the owner."""
    from gofer.core.private_folder import ForeignFolder, close_to_writers

    for file in (paths.ledger_file, paths.cache_dir / "any", paths.store_dir, paths.config_file):
        try:
            close_to_writers(file.parent)
        except ForeignFolder as error:
            if file is not paths.config_file:  # the settings may belong to another user: see docs/SECURITY.md
                raise CheckFailed(str(error)) from None
        except OSError:
            pass  # the disk is read-only
