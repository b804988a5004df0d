"""What one command works with: settings, ledger, stores and backends, each opened when first needed."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gofer.config.paths import Paths
from gofer.errors import LedgerCorrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    import msgspec

    from gofer.backends.base import Backend
    from gofer.config.settings import Settings
    from gofer.config.stores import StoreEntry
    from gofer.storage.base import Store
    from gofer.tracking.ledger import Ledger, RunRow


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

        return open_store(
            entry.url,
            entry.options.resolved(self.settings.resolve) if any(entry.options) else None,
            create=entry.url == self.paths.store_dir.as_uri(),
            name=entry.name or None,
            written=entry.options,
        )

    def backend(self, target: str) -> Backend:
        """The backend of a target as the settings have it now; CheckFailed for one that only data goes to."""
        found = self.settings.target(target)
        if self.settings.is_imported(target):
            from gofer.config.imported import only_data

            raise only_data(found)
        return self._make(target, found.kind, found.options, self.settings.store(found.store).url)

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
        from gofer.storage.base import OnDisk

        if (target, store_url) not in self._backends:
            store = self.store(store_url)
            path = str(store.path("runs").parent) if isinstance(store, OnDisk) else None
            around = registry.Surroundings(target, str(self.paths.engine_dir), store_url, path)
            self._backends[target, store_url] = registry.find(kind).make(options, around)
        return self._backends[target, store_url]


def config_schema() -> dict[str, Any]:
    """The JSON Schema of gofer.yaml with the options of every kind of target there is."""
    from gofer.backends.registry import Kinds
    from gofer.config.schema import project_schema

    return project_schema(Kinds())


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
