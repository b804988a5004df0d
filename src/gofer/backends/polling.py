"""Caches the answers of a cluster for all gofer processes of this user: one process asks, the others read.

While nothing changes, the interval between questions grows from 2 to 30 seconds. After a submission or an
abort on this machine it starts at 2 seconds again. This module does not interpret the answers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from gofer.core import files
from gofer.model.decode import decode

SOONEST_S = 2.0
LATEST_S = 30.0
_GROWTH = 1.5
# How long the time of a run's first absence is kept after the run was last found absent.
_REMEMBERED_S = 7 * 86400.0

Rows = list[int] | None


class ClusterAnswer(msgspec.Struct, kw_only=True):
    """An answer of the cluster.

    `jobs` are the jobs that the cluster has, each with `name`, `row` and `state`. `gone` is what is known of
    runs that the cluster does not have, each with `rows`. `ends` are recorded ends. `missing` says since when
    a run has been missing, by `name` or `name-row`. `asked` says when a process last asked about a name.
    """

    at: float = 0.0
    interval_s: float = 0.0
    jobs: list[dict[str, Any]] = []
    gone: dict[str, dict[str, Any]] = {}
    ends: dict[str, dict[str, Any]] = {}
    missing: dict[str, float] = {}
    asked: dict[str, float] = {}


class Polling:
    """The cached answers of one site, in a file of the queue home. Any process may call; calls block.

    `is_whole` says that every answer covers all jobs of the site. Then a question names only the runs that
    the last answer did not have; otherwise it names all runs that a process asked about recently.
    """

    def __init__(self, queue_home: str, site: str, kind: str, *, is_whole: bool = True) -> None:
        name = hashlib.sha256(site.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._path = os.path.join(queue_home, kind, f"{name}.json")
        self._is_whole = is_whole

    def ask(
        self, runs: Mapping[str, Rows], question: Callable[[Mapping[str, Rows]], Mapping[str, Any]]
    ) -> ClusterAnswer:
        """What is known of these runs: from the file while it is fresh, else from `question`.

        Only one process asks at a time. The question also covers the runs that other processes asked about
        recently, so that each process finds its own runs in the answer.
        """
        with self._locked():
            answer = self._read()
            now = time.time()
            if 0.0 <= now - answer.at < answer.interval_s and _covers(answer, runs):
                return answer
            wanted = _widened(answer, runs, now)
            if not self._is_whole:
                wanted = {**_recently_asked(answer, now), **wanted}
            fresh = _updated(answer, question(wanted), now)
            fresh.asked.update(dict.fromkeys(runs, now))
            self._write(fresh)
            return fresh

    def poke(self) -> None:
        """Make the next `ask` ask the cluster: a submission or a cancel has just changed what runs do."""
        with self._locked():
            answer = self._read()
            answer.at = answer.interval_s = 0.0
            self._write(answer)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with open(f"{self._path}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _read(self) -> ClusterAnswer:
        try:
            with open(self._path, "rb") as file:
                return decode(file.read(), ClusterAnswer) or ClusterAnswer()
        except FileNotFoundError:
            return ClusterAnswer()

    def _write(self, answer: ClusterAnswer) -> None:
        # ASCII: text from a run's folder may hold lone surrogates, which msgspec cannot encode.
        files.write_whole(self._path, files.encode(msgspec.to_builtins(answer)), mode=0o600)


def _covers(answer: ClusterAnswer, runs: Mapping[str, Rows]) -> bool:
    known = {(job["name"], job["row"]) for job in answer.jobs}
    for name, rows in runs.items():
        gone = answer.gone.get(name, {}).get("rows", ())
        if any((name, row) not in known and row not in gone for row in every(rows)):
            return False
    return True


def every(rows: Rows) -> list[int | None]:
    """The rows; a single None for a run that is not a row, and for an array as a whole."""
    return [None] if rows is None else list(rows)


def _recently_asked(answer: ClusterAnswer, now: float) -> dict[str, Rows]:
    """The jobs of the last answer that a process asked about in the last minute."""
    names = {job["name"] for job in answer.jobs}
    return {name: None for name, at in answer.asked.items() if name in names and now - at <= 2 * LATEST_S}


def _widened(answer: ClusterAnswer, runs: Mapping[str, Rows], now: float) -> dict[str, Rows]:
    """These runs, and the missing runs that a process asked about in the last minute."""
    found = dict(runs)
    for name, gone in answer.gone.items():
        if now - answer.asked.get(name, 0.0) > 2 * LATEST_S:
            continue
        mine = found.get(name, [])
        rows = [row for row in gone["rows"] if row is not None]
        found[name] = None if mine is None or not rows else sorted({*mine, *rows})
    return found


def _updated(old: ClusterAnswer, found: Mapping[str, Any], now: float) -> ClusterAnswer:
    jobs, gone = list(found["jobs"]), dict(found["gone"])
    # Only states count: times and reasons change all the time without a need to ask sooner.
    same = _signature(jobs) == _signature(old.jobs) and gone.keys() == old.gone.keys()
    grown = max(old.interval_s, SOONEST_S) * _GROWTH if same and old.interval_s else SOONEST_S
    missing = {name: at for name, at in old.missing.items() if now - at < _REMEMBERED_S}
    for name, entry in gone.items():
        for row in entry["rows"]:
            missing.setdefault(name if row is None else f"{name}-{row}", now)
    for job in jobs:
        missing.pop(job["name"] if job["row"] is None else f"{job['name']}-{job['row']}", None)
    interval_s, ends = min(grown, LATEST_S), dict(found["ends"])
    asked = {name: at for name, at in old.asked.items() if now - at <= 2 * LATEST_S}
    return ClusterAnswer(
        at=now, interval_s=interval_s, jobs=jobs, gone=gone, ends=ends, missing=missing, asked=asked
    )


def _signature(jobs: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(sorted([job["name"], str(job["row"]), job["state"]] for job in jobs))
