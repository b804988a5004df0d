"""The last line of a job's script: `python -m gofer.node.slurm.end FOLDER STATUS TERMINATED`.

STATUS is the exit status of `srun`. TERMINATED is 1 when Slurm sent SIGTERM to the script. The program
decides what
follows the attempt: another attempt, the end of the run, or nothing, when Slurm itself decides.
"""

from __future__ import annotations

import os
import sys
from typing import cast

from gofer.core import files, retries, run_layout
from gofer.core.attempts import AttemptRecords
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import AttemptFields, ExitFields, Outcome, attempt_record, end_line
from gofer.core.retry import backoff, retry
from gofer.core.states import Reason, State
from gofer.node.slurm.calls import SlurmError, call
from gofer.node.slurm.handoff import CLAIM, PRIVATE, Handoff
from gofer.node.slurm.share import SlurmShare, read_share
from gofer.objects import open_objects

_STORE_TRIES = 8
_STOPPED = {"PENDING", "COMPLETING", "CANCELLED", "PREEMPTED", "TIMEOUT", "REQUEUED", "NODE_FAIL"}


def main() -> int:
    handoff = Handoff(sys.argv[1])
    request = handoff.request()
    share = read_share({**os.environ, "SLURM_PROCID": "0"}, request)
    if handoff.read_text(CLAIM) not in (None, share.job):
        return 0
    if share.attempt > 1 and handoff.has_succeeded(share.row, share.attempt - 1, share.nodes):
        share = share._replace(attempt=share.attempt - 1)
    return _End(handoff, request, share).settle(int(sys.argv[2]), is_terminated=sys.argv[3] == "1")


class _End:
    def __init__(self, handoff: Handoff, request: NodeRequest, share: SlurmShare) -> None:
        self.handoff = handoff
        self.request = request
        self.share = share

    def settle(self, status: int, *, is_terminated: bool) -> int:
        """Record the outcome, and requeue the job if another attempt is due. Blocks. The exit status of the
        whole job, for Slurm's accounting.
        """
        history = self._history()
        result = self._result(status, is_terminated=is_terminated)
        if result is None:
            return status or 1
        history.append(attempt_record(self.share.attempt, result, [], self._begun(self.share.attempt)))
        if self._is_retried(history):
            problem = self._requeue()
            if problem is None:
                return 1
            result = result._replace(detail=_joined(result.detail, problem))
        self._write_down(result, history)
        self.handoff.end_row(self.share.row, len(self.request.rows))
        if result.state == State.SUCCEEDED:
            return 0
        return result.exit_code if result.exit_code and result.exit_code < 128 else 1

    def _result(self, status: int, *, is_terminated: bool) -> Outcome | None:
        """The outcome of the attempt; None when Slurm ended the job and may start it again."""
        facts = self._facts(self.share.attempt)
        is_whole = all(record is not None for record in facts.exits)
        result = retries.judge(facts)
        if self.handoff.stop_order(self.share.row) is not None and result.state != State.SUCCEEDED:
            return result._replace(state=State.CANCELLED, reason=Reason.USER, detail="aborted")
        if result.state == State.FAILED:
            return result
        if is_whole and result.reason != Reason.PREEMPTED:
            return result
        if is_terminated or self._is_being_ended():
            return None
        if is_whole:
            return result._replace(state=State.CANCELLED, reason=Reason.USER, detail="stopped by a signal")
        missing = [str(node) for node, record in enumerate(facts.exits) if record is None]
        words = f"node {', '.join(missing)} left no record of its end, and srun exited with {status}"
        return result._replace(detail=words)

    def _is_being_ended(self) -> bool:
        """Whether Slurm is ending the job. The agents may have received SIGTERM before the script did."""
        try:
            return bool(
                _STOPPED.intersection(call(["squeue", "-h", "-j", self.share.raw, "-o", "%T"]).split())
            )
        except (SlurmError, OSError):
            return True

    def _facts(self, attempt: int) -> AttemptRecords:
        row, nodes = self.share.row, range(self.share.nodes)
        exits = [self.handoff.read(row, attempt, f"exit-{node}") for node in nodes]
        return AttemptRecords(cast("list[ExitFields | None]", exits), self._begun(attempt) is not None)

    def _begun(self, attempt: int) -> float | None:
        begun = self.handoff.read(self.share.row, attempt, "begun")
        return None if begun is None else float(begun["at"])

    def _history(self) -> list[AttemptFields]:
        """The earlier attempts that reached the nodes."""
        found = []
        for number in range(1, self.share.attempt):
            begun = self._begun(number)
            if begun is not None:
                found.append(retries.earlier(number, self._facts(number), begun, "Slurm started it again"))
        return found

    def _is_retried(self, history: list[AttemptFields]) -> bool:
        return retries.should_retry(
            history,
            retries=self.request.retries,
            retry_on=self.request.retry_on,
            is_cancelled=self.handoff.stop_order(self.share.row) is not None,
        )

    def _requeue(self) -> str | None:
        """Requeue the job; Slurm ends this process when it does. A sentence when that failed, else None."""
        try:
            call(["scontrol", "requeue", self.share.raw])
        except (SlurmError, OSError) as error:
            return f"it could not be started again: {error}"
        return None

    def _write_down(self, result: Outcome, history: list[AttemptFields]) -> None:
        data = end_line(self.share.run_id, self.share.row, result, history, self.share.service_id)
        try:
            retry(
                lambda: self._put(run_layout.ends_key(self.share.run_id), data),
                errors=Exception,  # for any error, all that can be done is to try again
                pause_s=backoff(1.0, most_s=60.0, tries=_STORE_TRIES),
                before_pause=_print_unwritten,
            )
        except Exception as error:
            _print_unwritten(error)

    def _put(self, key: str, data: bytes) -> None:
        if self.request.store:
            path = os.path.join(self.request.store, key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            files.retry_while_full(lambda: files.append(path, data))
            return
        private = files.read_json(self.handoff.at(PRIVATE)) or {}
        open_objects(private["store"]).put(key, data)


def _print_unwritten(error: Exception) -> None:
    print(f"gofer: the end could not be written: {error}", file=sys.stderr, flush=True)


def _joined(*words: str | None) -> str:
    return "; ".join(word for word in words if word)


if __name__ == "__main__":
    sys.exit(main())
