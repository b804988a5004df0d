"""Remove what gofer keeps and no run needs. All places are surveyed in parallel.

Two removals at once, and a removal while runs are submitted and run, are safe: files of open runs are not
touched, files in use are locked or recent, and the next removal completes a killed one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gofer.backends.base import KeptPlace, Prunable, PruneBounds
from gofer.backends.queue_prune import MachinePlace
from gofer.backends.registry import capabilities_of
from gofer.core.parallel import parallel_map
from gofer.errors import GoferError, UsageError
from gofer.ops.prune.assets import AssetsPlace
from gofer.ops.prune.code import CodePlace
from gofer.ops.prune.runs import EndedRuns, RunsPlace, ended_at
from gofer.ops.submission.ledger_rows import ADOPTED
from gofer.ops.submission.send import is_here
from gofer.storage.base import OnMachine
from gofer.storage.file import TEMP_FOLDER
from gofer.tracking.query import Filter, Query
from gofer.transport.azure.tokens import TokenFiles
from gofer.transport.machine import LocalMachine

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.storage.base import Store
    from gofer.tracking.ledger import RunRow


T = TypeVar("T")

OLDER_THAN_S = 30 * 86400.0
# An object that no run names may belong to a run that is just being submitted.
_YOUNG_S = 86400.0
_AT_ONCE = 8
_PART = "part"
_PART_WHY = "its writer was killed"
_TOKEN = "token"


class PruneRequest(NamedTuple):
    """What to remove. Without a `target`: on this machine and the default target; with `everywhere`: on all
    targets. `code` and `runs` add things that cannot be made again. `filters` restrict the runs.
    """

    older_than_s: float | None = None
    target: str | None = None
    everywhere: bool = False
    code: bool = False
    runs: bool = False
    filters: tuple[Filter, ...] = ()


class PlaceFindings(NamedTuple):
    """A place, the bounds for it, and what it found to remove."""

    place: KeptPlace
    bounds: PruneBounds
    removable: tuple[Prunable, ...] = ()


class PruneSurvey(NamedTuple):
    """What can be removed, in the order of the removal. `silent` are places that could not be surveyed, by
    name, with the reason. `elsewhere` counts runs that only the machine that recorded them may remove.
    """

    asked: tuple[PlaceFindings, ...]
    silent: dict[str, str]
    elsewhere: int = 0

    @property
    def removable(self) -> list[Prunable]:
        return [item for one in self.asked for item in one.removable]


class PruneResult(NamedTuple):
    """What was removed, and the places that failed, with the reason."""

    removed: tuple[Prunable, ...]
    silent: dict[str, str]


def survey(session: Session, wanted: PruneRequest, *, now: float | None = None) -> PruneSurvey:
    """Survey every place; nothing is changed. Blocks. UsageError when runs are to be removed without any
    condition.

    `now` is the present time (default: the clock).
    """
    if wanted.runs and wanted.older_than_s is None and not wanted.filters:
        raise UsageError(
            "`--runs` removes logs and outputs for good, and no condition says of which runs",
            hint="add `--older-than 90d`, or `--filter state=failed`",
        )
    drawn = _Drawing(session, wanted, time.time() if now is None else now)
    places = drawn.places()
    silent, asked = dict(drawn.silent), list[PlaceFindings]()
    seen: set[tuple[str, str, str]] = set()
    for one, answer in zip(places, _each(lambda one: one.place.prunable(one.bounds), places), strict=True):
        if isinstance(answer, GoferError):
            silent[one.place.name] = answer.message
            continue
        new = [item for item in answer if item[:3] not in seen]  # two targets may share what they keep
        seen.update(item[:3] for item in new)
        asked.append(one._replace(removable=tuple(new)))
    return PruneSurvey(tuple(asked), silent, drawn.elsewhere)


def remove(found: PruneSurvey) -> PruneResult:
    """Remove what was found. Blocks. First what can be made again, then runs, then code that only they
    needed.
    """
    removed: list[Prunable] = []
    silent: dict[str, str] = {}
    for stage in range(3):
        asked = [one for one in found.asked if one.removable and _stage(one.place) == stage]
        answers = _each(lambda one: one.place.prune(one.removable, one.bounds), asked)
        for one, answer in zip(asked, answers, strict=True):
            if isinstance(answer, GoferError):
                silent[one.place.name] = answer.message
            else:
                removed += answer
    return PruneResult(tuple(removed), silent)


def _stage(place: KeptPlace) -> int:
    return 2 if isinstance(place, CodePlace) else 1 if isinstance(place, RunsPlace) else 0


class _Drawing:
    """Collects the places of one survey, in the thread of the session. Other threads survey them."""

    def __init__(self, session: Session, wanted: PruneRequest, now: float) -> None:
        self._session = session
        self._wanted = wanted
        self._older_s = OLDER_THAN_S if wanted.older_than_s is None else wanted.older_than_s
        self._now = now
        self._rows = session.ledger.select(Query())
        self._doomed, self.elsewhere = self._doomed_runs()
        self._places: dict[str, PlaceFindings] = {}
        self._stores: list[str] = []
        self.silent: dict[str, str] = {}

    def places(self) -> list[PlaceFindings]:
        if self._wanted.target is None:
            self._add_home()
        for target in self._targets():
            for placement in self._placements(target):
                try:
                    self._add_target(target, placement)
                except GoferError as error:
                    self.silent[target] = error.message
        for url in dict.fromkeys([*self._stores, *(row.store for row in self._doomed)]):
            try:
                self._add_runs(url)
            except GoferError as error:
                self.silent[url] = error.message
        return list(self._places.values())

    def _targets(self) -> list[str]:
        settings = self._session.settings
        if self._wanted.everywhere:
            return list(settings.target_names)
        return [settings.target(self._wanted.target).name]

    def _placements(self, target: str) -> Sequence[str]:
        """The machines of a target, if each may have a store of its own; else one empty name."""
        return capabilities_of(self._session.settings.target(target)).machines or ("",)

    def _add_home(self) -> None:
        session = self._session
        bounds = self._bounds(session.paths.store_dir.as_uri())
        queue_home = str(session.paths.queue_home)
        self._add(MachinePlace(LocalMachine.name, LocalMachine(), queue_home=queue_home), bounds)
        self._add(AssetsPlace(session), bounds)
        profiles = str(session.paths.config_file.parent / "azure")
        self._add(TokensPlace(os.path.join(queue_home, "azure"), profiles), bounds)

    def _add_target(self, target: str, placement: str) -> None:
        session = self._session
        url = session.store_url_of(target, placement)
        backend = session.backend(target, placement)
        bounds = self._bounds(url)
        if self._wanted.runs:
            self._stores.append(url)
        for place in backend.kept_places():
            self._add(place, bounds)
        if isinstance(bounds.store, OnMachine):
            self._add(PartsPlace(session.store(url)), bounds)
        if self._wanted.code:
            doomed = {row.id for row in self._doomed}
            mine = [row for row in self._rows if row.store == url and row.id not in doomed]
            self._add(CodePlace(session.store(url), {row.snapshot for row in mine if row.snapshot}), bounds)

    def _add_runs(self, url: str) -> None:
        rows = [row for row in self._doomed if row.store == url]
        ledger = self._session.paths.ledger_file
        known = [row.id for row in self._rows]
        self._add(RunsPlace(self._session.store(url), rows, known, ledger), self._bounds(url))

    def _add(self, place: KeptPlace, bounds: PruneBounds) -> None:
        self._places.setdefault(place.name, PlaceFindings(place, bounds))

    def _bounds(self, url: str) -> PruneBounds:
        before = self._now - self._older_s
        store: Store = self._session.store(url)
        return PruneBounds(
            before=before,
            unused_since=min(before, self._now - _YOUNG_S),
            ended=EndedRuns(self._rows, self._session.runs_in(url)),
            store=store,
            whole=frozenset(row.id for row in self._doomed),
        )

    def _doomed_runs(self) -> tuple[list[RunRow], int]:
        """(runs to remove completely, number of matching runs that another machine recorded). Only the
        recording machine knows that it will not send a run to the cluster again.
        """
        if not self._wanted.runs:
            return [], 0
        found = self._session.ledger.select(Query(filters=self._wanted.filters, kinds=("run", "group")))
        targets = None if self._wanted.everywhere else set(self._targets())
        old = [
            row
            for row in found
            if row.is_final
            and row.group_id is None
            and ended_at(row) < self._now - self._older_s
            and (targets is None or row.target in targets)
        ]
        mine = [row for row in old if row.submitter == ADOPTED or is_here(self._session, row.submitter)]
        return mine, len(old) - len(mine)


def _each(
    act: Callable[[PlaceFindings], Iterable[Prunable]], asked: Sequence[PlaceFindings]
) -> list[list[Prunable] | GoferError]:
    """Call `act` for all places in parallel. An error becomes the answer of its place."""

    def act_on(place: PlaceFindings) -> list[Prunable] | GoferError:
        try:
            return list(act(place))
        except GoferError as error:
            return error
        except OSError as error:
            return GoferError(f"{error.filename or place.place.name}: {error.strerror or error}")

    return parallel_map(act_on, asked, at_once=_AT_ONCE)


class PartsPlace:
    """The temporary files in one store that are older than any write can take."""

    def __init__(self, store: Store) -> None:
        self.name = f"parts in {store.url}"
        self._store = store

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        return [
            Prunable(self._store.url, _PART, info.key, info.size, info.modified, _PART_WHY)
            for info in self._store.list(TEMP_FOLDER)
            if info.modified < bounds.unused_since
        ]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        self._store.delete([one.name for one in doomed])
        return list(doomed)


class TokensPlace:
    """The tokens that gofer stores between commands. Valid tokens are not touched."""

    name = "tokens of Azure logins"

    def __init__(self, folder: str, profiles: str) -> None:
        """`profiles` is the folder with the logins that gofer made."""
        self._folder = folder
        self._profiles = profiles

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        return [Prunable(self.name, _TOKEN, *one) for one in self._files().stale(self._profiles)]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        self._files().drop_stale([one.name for one in doomed], self._profiles)
        return list(doomed)

    def _files(self) -> TokenFiles:
        return TokenFiles(self._folder)
