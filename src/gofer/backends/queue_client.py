"""The client of one machine's queue, on this machine or another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from gofer.backends.base import RunRef, Waiting
from gofer.backends.queue_waiting_reason import explain
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.errors import BackendError, CheckFailed
from gofer.model.ids import short_id
from gofer.model.run import Attempt, Observation
from gofer.transport.machine import Machine, RemoteFailure

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

    def facts(self) -> dict[str, Any]:
        """What the machine has: cpus, gpus, memory_mib, usage, counts of runs by state, the path of the
        queue.
        """
        found: dict[str, Any] = self._call("facts")
        return found

    def keep_secrets(self, run_id: str, values: RunSecrets) -> None:
        self._call("seal", run_id=run_id, values=values._asdict(), inherit=self._inherit)

    def drop_abandoned_secrets(self, is_recorded: Callable[[str], bool]) -> None:
        for path, run_id in self._call("abandoned").items():
            if not is_recorded(run_id):
                self.machine.call("machine.remove", path=path)

    def add(
        self, body: dict[str, Any], runs: Sequence[tuple[str, int | None, Mapping[str, str] | None]]
    ) -> None:
        self._woken(self._call("add", body=body, runs=runs))

    def observe(self, ids: Iterable[str]) -> dict[str, Observation]:
        """Reads the database of the queue, so no supervisor is needed; starts one if open runs need it."""
        started, seen = self._call("observe", ids=list(ids))
        self._woken(started)
        return {entry["id"]: _observation(entry) for entry in seen}

    def cancel(self, ids: Sequence[str], grace_s: float | None) -> None:
        self._woken(self._call("cancel", ids=list(ids), grace_s=grace_s))

    def waiting(self, run_id: str) -> Waiting | None:
        """Why a run waits, or the first waiting run of a group; None when no run waits."""
        found = self._call("waiting", run_id=run_id)
        return None if found is None else explain(found)

    def stalled(self) -> str | None:
        """Why no supervisor works on the queue, in words; None when a supervisor does."""
        listens, pid, state = self._call("supervisor")
        # A stopped process keeps its FIFO open, so it seems to answer.
        if listens and state in ("T", "t"):
            return (
                f"the supervisor of the queue of {self.machine.name} (process {pid}) is stopped; "
                f"continue it with `kill -CONT {pid}` on that machine"
            )
        if listens:
            return None
        log, words = self._call("last_words")
        return f"the queue of {self.machine.name} has no supervisor; its log is `{log}`" + (
            f" and ends with: {words.strip()}" if words.strip() else ""
        )

    def shell(
        self, run_id: str, command: Sequence[str], *, terminal: bool, node: int | None = None
    ) -> list[str] | None:
        """The command that opens a shell beside a run on that machine; None when the run, or that node of the
        run, is not running there.
        """
        found: list[str] | None = self._call(
            "shell", run_id=run_id, command=list(command), terminal=terminal, node=node
        )
        return found

    def _woken(self, started: bool) -> None:
        """Count the supervisors that were started; BackendError when they end again and again."""
        now = time.monotonic()
        if started and now >= self._counts_at:
            self._started += 1
            self._counts_at = now + _START_S
        if self._started > _MOST_STARTS:
            log, words = self._call("last_words")
            raise BackendError(
                f"the supervisor of the queue of {self.machine.name} ends right after its start: "
                f"{words or 'no reason is known'}",
                hint=f"read its log, `{log}`; `gofer doctor` runs more checks",
            )

    def _call(self, verb: str, **arguments: Any) -> Any:
        try:
            return self.machine.call(f"queue.{verb}", queue_home=self.queue_home, **arguments).value
        except RemoteFailure as error:
            raise BackendError(
                f"the queue of {self.machine.name} in `{self.queue_home}` cannot be used: {error.words}",
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


def _observation(seen: dict[str, Any]) -> Observation:
    attempts = tuple(msgspec.convert(entry, Attempt) for entry in seen["attempts"])
    facts = {name: value for name, value in seen.items() if name not in ("id", "attempts")}
    return msgspec.convert({"run_id": seen["id"], "attempts": attempts, **facts}, Observation)
