"""The elastic runs of a queue, for its supervisor: dead agents are replaced, and the lease says how a run
ended.

The agents of such a run decide themselves which of them run together. The supervisor only keeps as many
agents alive as the run has nodes.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, NamedTuple, Optional

from gofer.core import files, processes, run_layout
from gofer.core.json_text import parse_count
from gofer.core.outcome import AttemptFields, Outcome, attempt_record
from gofer.core.processes import ProcessIdentity
from gofer.core.states import Reason, State
from gofer.node.elastic.lease_store import FolderLease
from gofer.queue.active_run import ActiveRun
from gofer.queue.agent_pool import Share
from gofer.queue.elastic_share import lease_folder, mark_of

_LONGEST_PAUSE_S = 60.0
# An agent that has lived this long did not die of its start.
_STABLE_S = 60.0


class _Vacancy(NamedTuple):
    """A share whose agent is gone, and when it gets another."""

    run: ActiveRun
    share: Share
    at: float


class ElasticRuns:
    """Which shares of elastic runs wait for another agent. For the supervisor's thread."""

    def __init__(self) -> None:
        self._vacancies: Dict[Share, _Vacancy] = {}
        self._tries: Dict[Share, int] = {}
        self._began: Dict[Share, float] = {}

    def next_at(self) -> List[float]:
        """When the next agents are due, by the monotonic clock."""
        return [one.at for one in self._vacancies.values()]

    def lost(self, one: ActiveRun, share: Share, who: ProcessIdentity) -> bool:
        """An agent is gone. Ends what it left, and returns whether the share gets another agent."""
        mark = mark_of(who)
        processes.kill_until_gone(lambda table: processes.having_environment(mark, table))
        if one.entry.cancel_grace_s is not None or _over(one) is not None:
            return False
        now = time.monotonic()
        is_stable = now - self._began.get(share, now) > _STABLE_S
        tries = self._tries[share] = 0 if is_stable else self._tries.get(share, 0) + 1
        pause_s = min(_LONGEST_PAUSE_S, 2.0 ** (tries - 2)) if tries > 1 else 0.0
        self._vacancies[share] = _Vacancy(one, share, now + pause_s)
        return True

    def has_vacancy(self, one: ActiveRun) -> bool:
        return any(vacancy.run is one for vacancy in self._vacancies.values())

    def due(self) -> List[_Vacancy]:
        """The shares that get another agent now. Those of runs that are to be stopped get none."""
        now = time.monotonic()
        for vacancy in list(self._vacancies.values()):
            if vacancy.run.entry.cancel_grace_s is not None:
                del self._vacancies[vacancy.share]
        return [one for one in self._vacancies.values() if now >= one.at]

    def postpone(self, share: Share) -> None:
        """Try again in a second: another queue has the GPUs of the share."""
        self._vacancies[share] = self._vacancies[share]._replace(at=time.monotonic() + 1.0)

    def filled(self, share: Share) -> None:
        self._vacancies.pop(share, None)
        self._began[share] = time.monotonic()

    def settle(self, one: ActiveRun) -> Outcome:
        """How a run without agents has ended, with its generations as its attempts."""
        for share in [share for share in self._vacancies if share.run_id == one.entry.id]:
            del self._vacancies[share]
        history = _history(one)
        one.entry.attempts = history
        one.entry.attempt = max((int(attempt["number"]) for attempt in history), default=one.entry.attempt)
        now, over = time.time(), _over(one)
        if over is None and one.entry.cancel_grace_s is not None:
            return Outcome(State.CANCELLED, Reason.USER, "aborted", ended_at=now)
        if over is None:
            return Outcome(State.LOST, Reason.NODE_FAILURE, "its agents are gone", ended_at=now)
        reason = over.get("reason")
        return Outcome(
            State(over["state"]),
            None if reason is None else Reason(reason),
            over.get("detail"),
            over.get("exit_code"),
            ended_at=now,
        )


def _over(one: ActiveRun) -> Optional[Dict[str, Any]]:
    try:
        lease = FolderLease(lease_folder(one.request, one.entry.id)).read()
    except OSError:
        return None
    return None if lease is None else lease.over


def _history(one: ActiveRun) -> List[AttemptFields]:
    """The attempts of the run: its generations."""
    folder = os.path.join(one.store, run_layout.attempts_key(one.entry.id))
    numbers = sorted(filter(None, map(parse_count, os.listdir(folder) if os.path.isdir(folder) else ())))
    history = []
    for number in numbers:
        record = files.read_json(os.path.join(folder, str(number), run_layout.GENERATION))
        if record is not None:
            history.append(_attempt(number, record))
    return history


def _attempt(number: int, record: Dict[str, Any]) -> AttemptFields:
    reason, began, ended = record.get("reason"), record.get("began"), record.get("ended")
    outcome = Outcome(
        State(record.get("state") or State.LOST),
        Reason.MEMBERSHIP if reason is None and "state" not in record else reason and Reason(reason),
        record.get("detail") or None,
        record.get("exit_code"),
        began,
        ended,
        ended - began if began and ended else None,
    )
    return attempt_record(number, outcome, [], began)
