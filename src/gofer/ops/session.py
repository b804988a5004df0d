"""What one command works with: settings, ledger, stores and backends, each opened when first needed."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gofer.config.paths import Paths
from gofer.errors import LedgerCorrupt, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    import msgspec

    from gofer.backends.base import Backend
    from gofer.backends.registry import BlobPlace, Surroundings
    from gofer.config.settings import Settings
    from gofer.config.stores import StoreEntry
    from gofer.storage.base import Store
    from gofer.tracking.ledger import Ledger, RunRow
    from gofer.transport.ssh import Login


class Session:
    """The context of one command, for one thread. Making one costs nothing; close it, or use it as a context.

    `say` is for talk (stderr unless replaced); `target` is the name given on the command line, if any.
    """

    def __init__(
        self,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        target: str | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = Path.cwd() if folder is None else folder
        self.environ = dict(os.environ) if environ is None else environ
        self.target = target
        self.say = say or _say
        self._stores: dict[str, Store] = {}
        self._backends: dict[tuple[str, str], Backend] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        ledger = self.__dict__.pop("ledger", None)
        if ledger is not None:
            ledger.close()

    @cached_property
    def paths(self) -> Paths:
        return Paths.from_environment(self.environ)

    @cached_property
    def engine_id(self) -> str:
        """Names this machine's queue; recorded with every run."""
        from gofer.agent.engine import identity

        return identity(str(self.paths.engine_dir))

    @cached_property
    def settings(self) -> Settings:
        from gofer.backends.registry import Kinds
        from gofer.config.settings import load

        return load(self.folder, paths=self.paths, environ=self.environ, kinds=Kinds())

    @cached_property
    def ledger(self) -> Ledger:
        """A damaged ledger is set aside and rebuilt from the stores, and that is said."""
        from gofer.tracking.ledger import Ledger

        try:
            return Ledger.open(self.paths.ledger_file)
        except LedgerCorrupt as error:
            from gofer.ops.rebuild import replace_damaged

            return replace_damaged(self, error)

    def store(self, name_or_url: str) -> Store:
        """The store of that name, or at that URL with what opens it by the settings. One object for each URL.

        The built-in store's folder is made when absent.
        """
        if name_or_url in self._stores:
            return self._stores[name_or_url]
        entry = self._entry(name_or_url)
        if entry.url not in self._stores:
            self._stores[entry.url] = self._open(entry)
        return self._stores[entry.url]

    def runs_in(self, name_or_url: str) -> Store:
        """The store as a place of run folders: what is in it in parts is read as one."""
        from gofer.ops.joined import JoinedStore
        from gofer.storage.base import OnDisk

        store = self.store(name_or_url)
        return store if isinstance(store, OnDisk) else JoinedStore(store)

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
        login = self._login_to(entry.url) if entry.url.startswith("ssh://") else None
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
        """As a target says that its machine is reached; None when no target has that machine."""
        from gofer.backends import registry
        from gofer.config.nodes import table

        host = url.removeprefix("ssh://").partition("/")[0]
        names = table(self.settings.section("targets"))  # no file of another tool describes such a machine
        targets = (self.settings.target(name) for name in names)
        found = [registry.find(one.kind).login(one.options, host) for one in targets]
        logins = [login for login in found if login is not None and login.host == host]
        return next((login for login in logins if _own_store(login) == url), logins[0] if logins else None)

    def store_url_of(self, target: str, placement: str = "") -> str:
        """Where the runs of a target are kept; a folder is one of the machine its cluster is asked from.

        `placement` is the machine chosen for a run, where a target has several.
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
        """The backend of a target as the settings have it now.

        `placement` is the machine chosen for a run, where a target has several.
        """
        found = self.settings.target(target)
        try:
            return self._make(target, found.kind, found.options, self.store_url_of(target, placement))
        except UsageError as error:
            imported = self.settings.imported(target)
            if imported and imported.notes:
                error.hint = "; ".join(imported.notes)
            raise

    def backend_of(self, row: RunRow) -> Backend:
        """The backend that has this run: its target's options as they are now, its store as it was then."""
        from gofer.backends import registry

        if row.target in self.settings.target_names:
            found = self.settings.target(row.target)
            if found.kind == row.backend:
                return self._make(row.target, found.kind, found.options, row.store)
        # The target was renamed or removed since; what its kind needs at the least is its defaults.
        return self._make(row.target, row.backend, registry.find(row.backend).options(), row.store)

    def _make(self, target: str, kind: str, options: msgspec.Struct, store_url: str) -> Backend:
        from gofer.backends import registry

        if (target, store_url) not in self._backends:
            if getattr(options, "image", None):
                from gofer.ops.image_use import with_image

                options = with_image(self, options)
            around = self._around(target, kind, options, store_url)
            self._backends[target, store_url] = registry.find(kind).make(options, around)
        return self._backends[target, store_url]

    def _around(self, target: str, kind: str, options: msgspec.Struct, store_url: str) -> Surroundings:
        from gofer.backends import registry
        from gofer.storage.base import Delegates, OnDisk, OnMachine
        from gofer.transport.machine import Here
        from gofer.transport.ssh import reach

        store = self.store(store_url)
        host = store_url.removeprefix("ssh://").partition("/")[0] if store_url.startswith("ssh://") else ""
        login = registry.find(kind).login(options, host)
        machine = Here() if login is None else reach(login)
        path = None
        if login is None and isinstance(store, OnDisk):
            path = str(store.path("runs").parent)
        elif isinstance(store, OnMachine) and store.machine.name == machine.name:
            path = store.folder
        environ = self.environ
        if kind == "azureml":
            environ = self.azure_environ(f"the target `{target}`", getattr(options, "profile", None))
        return registry.Surroundings(
            target,
            str(self.paths.engine_dir),
            store_url,
            path,
            isinstance(store, Delegates),
            machine,
            self._blob_place,
            environ,
        )

    def _blob_place(self, url: str) -> BlobPlace | None:
        """Where a store lies in Azure's blob storage; None for one that does not."""
        from gofer.backends.registry import BlobPlace

        found = getattr(self.store(url), "blob_place", None) if url.startswith("az://") else None
        return None if found is None else BlobPlace(*found)

    def azure_environ(self, owner: str, named: str | None = None) -> Mapping[str, str]:
        """The environment of the Azure login that `owner` works with, `named` being the profile that the
        settings give it. UnknownName when that is gone.
        """
        from gofer.ops.azure_profiles import Profiles

        return Profiles.of(self.environ).environ_for(owner, named)


def config_schema() -> dict[str, Any]:
    """The JSON Schema of gofer.yaml with the options of every kind of target there is."""
    from gofer.backends.registry import Kinds
    from gofer.config.schema import project_schema

    return project_schema(Kinds())


def _own_store(login: Login) -> str:
    """The store of targets on another machine that name none, in gofer's own folder there."""
    return f"ssh://{login.host}/{login.folder.lstrip('/')}/store"


def _owner(entry: StoreEntry) -> str:
    return f"the store `{entry.name or entry.url}`"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
