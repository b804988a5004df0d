"""What a session opens to reach a cluster or a store: logins, stores, and the backends of targets.

`Session` makes one `Connections` when it needs the first store or backend, so that a command that reads only
the ledger (`gofer list runs`) loads no backend.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gofer.backends import registry
from gofer.backends.kind import BackendContext, BlobPlace
from gofer.config.stores import StoreEntry
from gofer.config.targets import Target
from gofer.config.yaml.nodes import BUILT_IN, table
from gofer.errors import TargetGone, UsageError
from gofer.ops.logs.joined_parts import JoinedStore
from gofer.ops.runs.run_folder import RunFolder
from gofer.ops.runs.run_origin import settings_of_definition, settings_of_run
from gofer.storage.base import Delegates, OnDisk, OnMachine
from gofer.storage.open import open_store
from gofer.transport.machine import LocalMachine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gofer.backends.base import Backend, Capabilities
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow
    from gofer.transport.ssh import Login, SshMachine


class Connections:
    """The open stores and backends of one session, each opened once. The methods with a counterpart in
    `Session` have their contract there.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._stores: dict[str, Store] = {}
        self._backends: dict[tuple[str, str, str], Backend] = {}
        # Sessions of other projects, by (definition, URL) or by (origin, target, kind).
        self._others: dict[tuple[str, ...], Session] = {}

    def close(self) -> None:
        """Close the sessions of other projects. Idempotent."""
        for other in self._others.values():
            if other is not self._session:
                other.close()

    def store(self, name_or_url: str) -> Store:
        """See `Session.store`."""
        if name_or_url in self._stores:
            return self._stores[name_or_url]
        if "://" in name_or_url and not self.knows(name_or_url):
            for other in self._sessions_at(name_or_url):
                self._stores[name_or_url] = other.store(name_or_url)
                return self._stores[name_or_url]
        entry = self._entry(name_or_url)
        if entry.url not in self._stores:
            self._stores[entry.url] = self._open(entry)
        return self._stores[entry.url]

    def knows(self, url: str) -> bool:
        """Whether the settings have exactly this URL, or the URL needs no settings."""
        if url.startswith(("file://", "memory://")):
            return True
        with suppress(UsageError):  # the error is raised again when the store is opened
            host = _ssh_host(url)
            if host:
                return any(self.store_url_of(name, host) == url for name, _ in self._logins(host))
            entry = self._session.settings.store_at(url)
            return entry is not None and self._session.settings.store(entry.name).url == url
        return False

    def _sessions_at(self, url: str) -> Iterator[Session]:
        """A session for each definition of a target whose runs are in the store."""
        for key in self._session.definitions_at(url):
            if (key, url) not in self._others:
                sessions = (
                    self._session.with_settings(settings)
                    for settings in settings_of_definition(self._session, key)
                )
                found = next(
                    (one for one in sessions if one is not self._session and one.connections.knows(url)), None
                )
                if found is None:
                    continue
                self._others[key, url] = found
            yield self._others[key, url]

    def of_run(self, row: RunRow) -> Session:
        """See `Session.of_run`."""
        key = (row.origin, row.target, row.backend)
        if key not in self._others:
            self._others[key] = self._session.with_settings(settings_of_run(self._session, row))
        return self._others[key]

    def runs_in(self, name_or_url: str) -> Store:
        """See `Session.runs_in`."""
        store = self.store(name_or_url)
        return store if isinstance(store, OnDisk) else JoinedStore(store)

    def run_folder(self, row: RunRow, *, whole: bool = False) -> RunFolder:
        """See `Session.run_folder`."""
        return RunFolder(self.runs_in(row.store), row.id, whole=whole)

    def _entry(self, name_or_url: str) -> StoreEntry:
        if "://" not in name_or_url:
            return self._session.settings.store(name_or_url)
        unknown = StoreEntry("", name_or_url, "")
        if name_or_url.startswith(("file://", "memory://")):
            return unknown
        return self._session.settings.store_at(name_or_url) or unknown

    def _open(self, entry: StoreEntry) -> Store:
        by_login = entry.url.startswith("az://") and not (entry.options.key or entry.options.sas)
        target, login = self._login_to(entry.url)
        if login is not None:
            _reach(login, target)  # the store then names the target in its errors
        own = self._session.paths.store_dir.as_uri() if login is None else _own_store(login)
        return open_store(
            entry.url,
            entry.options.resolved(self._session.settings.resolve) if any(entry.options) else None,
            create=entry.url == own,
            name=entry.name or None,
            written=entry.options,
            login=login,
            environ=self._session.azure_environ(_owner(entry), entry.options.profile) if by_login else None,
        )

    def _login_to(self, url: str) -> tuple[str, Login | None]:
        """A target that uses the machine of a store, and its login; no login when no target does, and for
        other stores.
        """
        host = _ssh_host(url)
        logins = self._logins(host) if host else []
        return next((one for one in logins if _own_store(one[1]) == url), logins[0] if logins else ("", None))

    def _logins(self, host: str) -> list[tuple[str, Login]]:
        """The targets that use the machine, each with its login."""
        names = table(self._session.settings.section("targets"))  # targets of imported files never use SSH
        targets = [self._session.settings.target(name) for name in names]
        # A target of several machines would take any host for one of them.
        users = [one for one in targets if host in (registry.capabilities_of(one).machines or (host,))]
        found = [(one.name, registry.find(one.kind).login(one.options, host)) for one in users]
        return [(name, login) for name, login in found if login is not None and login.host == host]

    def store_url_of(self, target: str, placement: str = "") -> str:
        """See `Session.store_url_of`."""
        found = self._session.settings.target(target)
        url = self._session.settings.store(found.store).url
        login = registry.find(found.kind).login(found.options, placement)
        if login is None or not url.startswith("file://"):
            return url
        if url == self._session.paths.store_dir.as_uri():
            return _own_store(login)
        return f"ssh://{login.host}/{url.removeprefix('file://').lstrip('/')}"

    def backend(self, target: str, placement: str = "") -> Backend:
        """See `Session.backend`."""
        found = self._session.settings.target(target)
        try:
            return self.make_backend(found, self.store_url_of(target, placement), placement)
        except UsageError as error:
            imported = self._session.settings.imported(target)
            if imported and imported.notes:
                error.hint = "; ".join(imported.notes)
            raise

    def backend_of(self, row: RunRow) -> Backend:
        """See `Session.backend_of`."""
        try:
            own = self.of_run(row)
        except TargetGone:
            if not registry.runs_here(row.backend):
                raise
            # All targets on this machine share one queue, so the name of the target does not matter.
            return self.make_backend(self._usual_target(row), row.store)
        # If each machine has its own store, the URL of the store names the machine.
        return own.connections.make_backend(own.settings.target(row.target), row.store, _ssh_host(row.store))

    def _usual_target(self, row: RunRow) -> Target:
        options = registry.find(row.backend).options()
        return Target(row.target, row.backend, "default", options, None, BUILT_IN)

    def make_backend(self, target: Target, store_url: str, placement: str = "") -> Backend:
        key = (target.name, store_url, placement)
        if key not in self._backends:
            context = self._context(target, store_url, placement)
            self._backends[key] = registry.find(target.kind).make(target.options, context)
        return self._backends[key]

    def _context(self, target: Target, store_url: str, placement: str) -> BackendContext:
        store, capabilities = self.store(store_url), registry.capabilities_of(target)
        login = registry.find(target.kind).login(target.options, _ssh_host(store_url))
        machine = LocalMachine() if login is None else _reach(login, target.name)
        path = None
        if login is None and isinstance(store, OnDisk):
            path = str(store.path("runs").parent)
        elif isinstance(store, OnMachine) and store.machine.name == machine.name:
            path = store.folder
        return BackendContext(
            target.name,
            str(self._session.paths.queue_home),
            store_url,
            path,
            isinstance(store, Delegates),
            machine,
            self._blob_place,
            lambda: self._session.azure_environ(f"the target `{target.name}`", capabilities.profile),
            placement,
            self._image(capabilities),
        )

    def _image(self, capabilities: Capabilities) -> str | None:
        if capabilities.image is None:
            return None
        from gofer.ops.images.wrap import complete_image  # most targets have no image

        return complete_image(self._session, capabilities)

    def _blob_place(self, url: str) -> BlobPlace | None:
        """The place of a store in Azure Blob Storage; None for other stores."""
        found = getattr(self.store(url), "blob_place", None) if url.startswith("az://") else None
        return None if found is None else BlobPlace(*found)


def _ssh_host(url: str) -> str:
    """The host of a store on a machine over SSH; "" for other stores."""
    return url.removeprefix("ssh://").partition("/")[0] if url.startswith("ssh://") else ""


def _own_store(login: Login) -> str:
    """The default store of targets on another machine: in gofer's own folder there."""
    return f"ssh://{login.host}/{login.folder.lstrip('/')}/store"


def _owner(entry: StoreEntry) -> str:
    return f"the store `{entry.name or entry.url}`"


def _reach(login: Login, target: str) -> SshMachine:
    """The machine of a login. Only targets on other machines need the module, which is slow to load."""
    from gofer.transport.ssh import reach

    return reach(login, target)
