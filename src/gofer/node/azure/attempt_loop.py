"""The life of one node's agent: attempt after attempt, until the run is over or the service wants it to end.

Node 0 leads: it takes up an attempt by making an object that must not exist, so none is made twice whatever
the service starts again; it judges how the attempt ended, and writes the line of the run's end as the last of
all. The others follow.
"""

from __future__ import annotations

import socket
import sys
import time
from typing import Any, Dict, List, Optional

from gofer.core import attempts, retries
from gofer.core.attempts import AttemptRecords, Outcome
from gofer.core.secrets.run_secrets import Private
from gofer.core.states import Reason, State
from gofer.node.azure.attempt_runner import AttemptContext, NodeContext, Trials
from gofer.node.azure.peer_messages import Told
from gofer.node.azure.rendezvous import Alone, AttemptPlan, Meeting, ToldToEnd, patiently
from gofer.node.azure.runner import TOLD
from gofer.node.azure.share import AzureShare
from gofer.node.azure.termination import AzureTermination
from gofer.node.watch import Watch
from gofer.objects.facts import ObjectsError

_MOST_CLAIMS = 100
_UNSENT = "its node was gone before its files were in the store"


class AttemptLoop:
    """One process of the service. `run` once; main thread only."""

    def __init__(self, request: Dict[str, Any], private: Private, share: AzureShare, at: NodeContext) -> None:
        self.share = share
        self.request = request
        self._watch = Watch(-1, lambda: None, at_work=True)
        self._orders = AzureTermination(float(request["grace_s"]), self._watch)
        self._told = Told(private.store or {}, share.request_id, share.run_id, share.row)
        self._trials = Trials(
            AttemptContext(request, private, share, at), self._watch, self._orders, self._told
        )
        self._orders.on_told = self._trials.on_told
        self._meeting = Meeting(self._told, share, self._wait)
        self._tries = 0

    def run(self) -> int:
        """0 when the run succeeded, else the exit code of its command, 1 where there is none."""
        status = 1
        try:
            over = patiently(self._told.end, self._wait)
            if over is not None:
                _say(f"{self.share.run_id} has ended before: {over['state']}; nothing is started")
                status = retries.status(over["state"], over.get("exit_code"))
                self._clear(status)
            else:
                status = self._lead() if self.share.node == 0 else self._follow()
        except ToldToEnd:
            _say(str(TOLD.detail))
        except Alone as words:
            _say(str(words))
        except ObjectsError as error:
            _say(f"the store of the run cannot be used: {error}")
        finally:
            self._trials.finish(status)
        return status

    def _wait(self, seconds: float) -> bool:
        self._watch.wait(-1, seconds)
        return not self._orders.is_told

    # -- node 0

    def _lead(self) -> int:
        history = patiently(self._history, self._wait)
        before = _unsaid_end(self.request, history)
        if before is not None:
            return self._close(None, before, history, [])
        while True:
            attempt = self._take_up(max((one["number"] for one in history), default=0) + 1)
            begun = time.time()
            try:
                plan = self._meeting.call(attempt, self._port())
            except Alone as words:
                result = Outcome(State.LOST, Reason.NODE_FAILURE, str(words), None, None, time.time(), None)
                return self._close(
                    None, result, [*history, attempts.describe(attempt, result, [], begun)], []
                )
            own = self._trials.make(plan)
            exits: List[Optional[Dict[str, Any]]] = [own]
            if not _is_told(own):
                exits = self._meeting.collect(plan, own)
            result = _judged(exits)
            history.append(attempts.describe(attempt, result, [], begun))
            _say(_attempt_words(attempt, result.state, result.detail))
            is_last = not retries.deserves_another(self.request, result, history)
            if result.reason == Reason.PREEMPTED or (self._orders.is_told and not is_last):
                return retries.status(result.state, result.exit_code)  # the service knows what comes of it
            if is_last:
                reached = [node for node, record in enumerate(exits) if node and record is not None]
                return self._close(plan, result, history, reached)

    def _history(self) -> List[Dict[str, Any]]:
        """The attempts that earlier lives of the job have made.

        The last has succeeded only if what it wrote is in the store too: else it took place for nothing.
        """
        found: List[Dict[str, Any]] = []
        for number, begun in sorted(self._told.attempts().items()):
            exits = [self._told.exit_record(number, node) for node in range(self.share.nodes)]
            facts = AttemptRecords(_those_told(exits), True)
            found.append(retries.earlier(number, facts, begun or time.time(), "the service started it again"))
        if found and found[-1]["state"] == State.SUCCEEDED and not self._meeting.is_sent(found[-1]["number"]):
            lost = {"state": State.LOST.value, "reason": Reason.NODE_FAILURE.value, "exit_code": None}
            found[-1].update(lost, detail=_UNSENT)
        return found

    def _take_up(self, number: int) -> int:
        """The number of an attempt that nobody else has taken up, and that nobody will."""
        for one in range(number, number + _MOST_CLAIMS):
            if patiently(lambda: self._told.claim(f"begun.{one}", {"at": time.time()}), self._wait):  # noqa: B023
                return one
        raise Alone(f"attempts {number} to {number + _MOST_CLAIMS - 1} are all taken up by others")

    def _port(self) -> int:
        """The service's; the next one for each further try, since what is left of the last may hold it."""
        self._tries += 1
        return _free_port() if self.share.port is None else self.share.port + self._tries - 1

    def _close(
        self, plan: Optional[AttemptPlan], result: Outcome, history: List[Dict[str, Any]], reached: List[int]
    ) -> int:
        """Everything into the store, the line of the end as the last.

        A success whose nodes are taken before all of them have sent what they wrote is left unsaid: the next
        life of the job knows whether they have.
        """
        status = retries.status(result.state, result.exit_code)
        try:
            if not self._send(plan, status, reached):
                words = "its files could not be sent to the store"
                result = result._replace(detail="; ".join(one for one in (result.detail, words) if one))
        except ToldToEnd:
            if result.state == State.SUCCEEDED and reached:
                return status
        line = retries.line(self.share.run_id, self.share.row, result, history)
        patiently(lambda: self._told.write_end(line), self._wait_anyhow)
        self._clear(status)
        return status

    def _clear(self, status: int) -> None:
        """Also when an earlier life was ended in the midst of it."""
        if self.share.node != 0:
            return
        try:
            patiently(lambda: self._told.clear(status, is_last=self.share.row is None), self._wait)
        except (ObjectsError, ToldToEnd) as error:
            _say(f"what its nodes told each other could not be removed: {str(error) or TOLD.detail}")

    def _send(self, plan: Optional[AttemptPlan], status: int, reached: List[int]) -> bool:
        """What all nodes wrote; False when the store did not take what this one did."""
        over = None if plan is None else self._meeting.announce_end(plan, status)
        is_sent = self._trials.send()
        if over is not None:
            self._meeting.tell_sent(over, is_sent)
            self._meeting.await_sent(over, reached)
        return is_sent

    def _wait_anyhow(self, seconds: float) -> bool:
        self._watch.wait(-1, seconds)
        return True

    # -- the others

    def _follow(self) -> int:
        done: Optional[AttemptPlan] = None
        while True:
            plan = self._meeting.join(done)
            if plan.over is not None:
                break
            own = self._trials.make(plan)
            _say(_attempt_words(plan.attempt, own["state"], own["detail"]))
            if _is_told(own):
                return retries.status(own["state"], own["exit_code"])
            done = plan
        is_sent = self._trials.send()
        try:
            if plan.life:
                self._meeting.leave(plan, is_sent)
            else:
                self._meeting.forget()
        except ToldToEnd:
            pass  # it was about to
        return plan.over


def _attempt_words(number: int, state: str, detail: Optional[str]) -> str:
    return f"attempt {number}: {state}" + (f", {detail}" if detail else "")


def _is_told(record: Dict[str, Any]) -> bool:
    return bool(record["reason"] == Reason.PREEMPTED)


def _those_told(exits: List[Optional[Dict[str, Any]]]) -> List[Optional[Dict[str, Any]]]:
    """Those that the service told to end, or all: what fails while another node is ended fails for that."""
    return [one for one in exits if one is not None and _is_told(one)] or exits


def _judged(exits: List[Optional[Dict[str, Any]]]) -> Outcome:
    result = retries.judge(AttemptRecords(_those_told(exits), True))
    missing = [str(node) for node, record in enumerate(exits) if record is None]
    if missing and result.state == State.LOST:
        result = result._replace(detail=f"node {', '.join(missing)} did not say how it ended")
    return result


def _unsaid_end(request: Dict[str, Any], history: List[Dict[str, Any]]) -> Optional[Outcome]:
    """The end of a run whose node 0 was killed when only its last line was missing."""
    if not history:
        return None
    last = history[-1]
    state, reason = State(last["state"]), None if last["reason"] is None else Reason(last["reason"])
    result = Outcome(
        state,
        reason,
        last["detail"],
        last["exit_code"],
        last["started_at"],
        last["ended_at"],
        last["elapsed_s"],
    )
    is_over = state == State.SUCCEEDED or (
        state == State.FAILED and not retries.deserves_another(request, result, history)
    )
    return result if is_over else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _say(words: str) -> None:
    print(f"gofer: {words}", file=sys.stderr, flush=True)
