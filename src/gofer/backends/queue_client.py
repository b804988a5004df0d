"""The client of one machine's queue, on this machine or another, and why its runs wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from gofer.backends.base import RunRef, Waiting
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import State
from gofer.errors import BackendError, CheckFailed, GoferError
from gofer.model.ids import short_id
from gofer.model.run import Attempt, Observation
from gofer.queue.database import RequestFields
from gofer.queue.waiting_reasons import Holder, WaitingFacts
from gofer.remote.calls import describe
from gofer.text import format_duration, format_size
from gofer.transport.machine import Machine

if TYPE_CHECKING:
    from gofer.queue.database import QueueStatus
    from gofer.remote.api import MachineFacts, QueueApi, RequestedRun

_MOST_NAMED = 4
_WORDS = {"gpus": ("GPU", "GPUs"), "cpus": ("CPU", "CPUs")}


def explain(facts: WaitingFacts) -> Waiting:
    """The explanation. The estimate is an upper bound, unless runs of higher priority are submitted later."""
    return Waiting(_why(facts), facts.ahead, facts.estimate, tuple(facts.parents))


def _why(facts: WaitingFacts) -> str:
    if facts.is_stopping:
        return "it is about to be stopped, as requested"
    if facts.retry_in_s > 0:
        failed = facts.failed_attempts
        pause = format_duration(facts.retry_in_s)
        return f"attempt {failed} failed; attempt {failed + 1} begins in {pause}"
    if facts.sharing_problem:
        return f"its GPUs cannot be shared with other users: {facts.sharing_problem}"
    if facts.lacks:
        needs = " and ".join(_need(kind, facts) for kind in facts.lacks)
        holders = _held(facts.holders, facts.lacks)
        words = f"it needs {needs}{'; held by ' + holders if holders else ''}"
        return f"{words}; {_deadlock(facts.parents)}" if facts.parents else words
    if facts.head is not None:
        return f"enough is free, but it would delay {short_id(facts.head)}, the first run in the queue"
    return "no reason: it starts next"


def _deadlock(parents: Sequence[str]) -> str:
    """What to do about runs that wait for runs that cannot start before they end."""
    names = [short_id(run) for run in parents]
    if len(names) == 1:
        return f"{names[0]} submitted runs of this queue: if {names[0]} waits for them, neither continues"
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed} submitted runs of this queue: if they wait for them, none continues"


def brief(facts: WaitingFacts) -> str | None:
    """The reason in a few words that change seldom, for a table; None for a run that starts next."""
    if facts.parents:
        return f"blocked by {short_id(facts.parents[0])}"
    if facts.lacks:
        return f"needs {' and '.join(count(kind, getattr(facts, kind)) for kind in facts.lacks)}"
    return None if facts.head is None else f"behind {short_id(facts.head)}"


def _need(kind: str, facts: WaitingFacts) -> str:
    if kind == "memory_mib":
        free, most = format_size(facts.memory_free_mib << 20), format_size(facts.machine_memory_mib << 20)
        return f"{count(kind, facts.memory_mib)} ({free} of {most} free)"
    if kind == "cpus":
        return f"{count(kind, facts.cpus)} ({facts.cpus_free} of {facts.machine_cpus} free)"
    split = f", not {facts.gpus_per_node} on one node" if facts.gpus_free >= facts.gpus else ""
    return f"{count(kind, facts.gpus)} ({facts.gpus_free} of {facts.target_gpus} free{split})"


def count(kind: str, number: int) -> str:
    """`1 GPU`, `4 CPUs`, `2.0 GiB of memory`."""
    if kind == "memory_mib":
        return f"{format_size(number << 20)} of memory"
    return f"{number} {_WORDS[kind][number != 1]}"


def _held(holders: Sequence[Holder], lacks: Sequence[str]) -> str:
    """The largest holders by name, the others by number."""
    named = []
    for holder in holders[:_MOST_NAMED]:
        what = ", ".join(count(kind, getattr(holder, kind)) for kind in lacks if getattr(holder, kind))
        named.append(f"{holder.person or short_id(holder.run_id or '')} ({what})")
    more = len(holders) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


# Each command starts at most one supervisor, or a second one if the first is killed. More starts in one
# process mean that the supervisor dies at once, and the user must be told.
_MOST_STARTS = 20
# A supervisor may still be starting during this time, so a second start within it is not counted.
_START_S = 0.2


class QueueClient:
    """The queue in the folder `queue_home` of a machine. With `inherit`, runs get the environment of a login
    there.

    Every method blocks and may be called again. Errors: BackendError when the queue cannot be used,
    Unreachable when the machine does not answer.
    """

    def __init__(self, machine: Machine, queue_home: str, *, inherit: bool) -> None:
        self.machine = machine
        self.queue_home = queue_home
        self._inherit = inherit
        self._started = 0
        self._counts_at = 0.0

    def facts(self) -> MachineFacts:
        """What the machine has and what its queue uses."""
        with self._calling() as queue:
            return queue.facts()

    def keep_secrets(self, run_id: str, values: RunSecrets) -> None:
        with self._calling() as queue:
            queue.keep_secrets(run_id, values, self._inherit)

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:
        with self._calling() as queue:
            abandoned = queue.abandoned_secrets()
        paths = [path for path, run_id in abandoned.items() if not is_recorded(run_id)]
        if paths:
            with self._calling() as queue:
                queue.remove_secrets(paths)

    def add(self, body: RequestFields, runs: Sequence[RequestedRun]) -> None:
        with self._calling() as queue:
            started = queue.add(body, list(runs))
        self._count_start(started)

    def observe(self, ids: Iterable[str]) -> dict[str, Observation]:
        """Reads the database of the queue, so no supervisor is needed; starts one if open runs need it."""
        with self._calling() as queue:
            started, found, waiting = queue.observe(list(ids))
        self._count_start(started)
        return {status.id: _observation(status, waiting.get(status.id)) for status in found}

    def cancel(self, ids: Sequence[str], grace_s: float | None) -> None:
        with self._calling() as queue:
            started = queue.cancel(list(ids), grace_s)
        self._count_start(started)

    def waiting(self, run_id: str) -> Waiting | None:
        """Why a run waits, or the first waiting run of a group; None when no run waits."""
        with self._calling() as queue:
            found = queue.waiting(run_id)
        return None if found is None else explain(found)

    def stalled(self) -> str | None:
        """Why no supervisor works on the queue, in words; None when a supervisor does."""
        with self._calling() as queue:
            status = queue.supervisor()
            # A stopped process keeps its FIFO open, so it seems to answer.
            if status.answers and status.process_state in ("T", "t"):
                return (
                    f"the supervisor of the queue of {self.machine.name} (process {status.pid}) is stopped; "
                    f"continue it with `kill -CONT {status.pid}` on that machine"
                )
            if status.answers:
                return None
            log = queue.log_end()
        end = f" and ends with: {log.line.strip()}" if log.line.strip() else ""
        return f"the queue of {self.machine.name} has no supervisor; its log is `{log.path}`{end}"

    def shell(
        self, run_id: str, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str] | None:
        """The command that opens a shell beside a run on that machine; None when the run, or that node of the
        run, is not running there.
        """
        with self._calling() as queue:
            return queue.shell(run_id, list(command), terminal, node)

    def _count_start(self, started: bool) -> None:
        """Count the supervisors that were started; BackendError when they end again and again."""
        now = time.monotonic()
        if started and now >= self._counts_at:
            self._started += 1
            self._counts_at = now + _START_S
        if self._started > _MOST_STARTS:
            with self._calling() as queue:
                log = queue.log_end()
            raise BackendError(
                f"the supervisor of the queue of {self.machine.name} ends right after its start: "
                f"{log.line or 'no reason is known'}",
                hint=f"read its log, `{log.path}`; `gofer doctor` runs more checks",
            )

    @contextmanager
    def _calling(self) -> Iterator[QueueApi]:
        """The queue for calls; an error of a call becomes a BackendError that names the queue."""
        try:
            yield self.machine.queue(self.queue_home)
        except GoferError:
            raise
        except Exception as error:
            raise BackendError(
                f"the queue of {self.machine.name} in `{self.queue_home}` cannot be used: {describe(error)}",
                hint="make the folder writable, or set `GOFER_HOME` to a writable folder",
            ) from error


def no_process(run: RunRef, node: int | None) -> CheckFailed:
    """The error of `Shells.shell` for a run, or a node of a run, that has no living process."""
    name = short_id(run.id)
    part = "" if node is None else f"node {node} of "
    return CheckFailed(
        f"no process of {part}{name} is alive on its machine",
        hint=f"`gofer why {name}` shows its state; `gofer logs {name}` shows its output",
    )


def _observation(status: QueueStatus, waiting: WaitingFacts | None) -> Observation:
    # Of the many waiting rows of an array, nothing but the state is known.
    if status.state == State.QUEUED and not any(status[2:]):
        return Observation(run_id=status.id, state=State.QUEUED, detail=waiting and brief(waiting))
    attempts = tuple(msgspec.convert(entry, Attempt) for entry in status.attempts)
    facts = {name: value for name, value in status._asdict().items() if name not in ("id", "attempts")}
    return msgspec.convert({"run_id": status.id, "attempts": attempts, **facts}, Observation)
