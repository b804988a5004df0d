"""The loop of one node's agent: attempt after attempt, until the run is over or the service ends the node.

Node 0 is the leader. It claims each attempt by creating an object that must not exist, so no attempt is made
twice even if the service restarts the job. It decides how the attempt ended, and writes the line of the run's
end last of all. The other nodes follow.
"""

from __future__ import annotations

import sys
import time
from typing import List, Optional

from gofer.core import retries
from gofer.core.attempts import AttemptRecords
from gofer.core.node_request import NodeRequest
from gofer.core.outcome import AttemptFields, ExitFields, Outcome, attempt_record, decode, end_line
from gofer.core.secrets.run_secrets import RunSecrets
from gofer.core.states import Reason, State
from gofer.node.rendezvous.base import Membership, free_port
from gofer.node.rendezvous.objects import ObjectRendezvous, PeersMissing
from gofer.node.rendezvous.peer_messages import PeerMessages, Terminated, patiently
from gofer.node.service.attempt_runner import AttemptContext, AttemptRunner, NodeContext
from gofer.node.service.holder import NodeHolder
from gofer.node.service.runner import TERMINATED
from gofer.node.service.share import NodeShare
from gofer.node.service.stop_order import STOPPED, StopOrder
from gofer.node.service.termination import Termination
from gofer.node.watch import Watch
from gofer.objects.facts import ObjectsError

# Attempt numbers that others may have claimed before the leader gives up.
_MOST_CLAIMS = 100
_UNSENT = "its node was taken away before its files were in the store"


class AttemptLoop:
    """The agent of one node. Call `run` once, in the main thread.

    `end` is how the run ended; None while the run is not over, so that the service may start this node
    again.
    """

    def __init__(self, request: NodeRequest, private: RunSecrets, share: NodeShare, at: NodeContext) -> None:
        self.share = share
        self.request = request
        self._watch = Watch(-1, lambda: None, at_work=True)
        grace_s = float(request.grace_s)
        most_s, place = share.most_grace_s, (private.store or {}, share.request_id, share.run_id, share.row)
        self._order = StopOrder(*place) if share.replaces_nodes else None
        grace_s = grace_s if most_s is None else min(grace_s, most_s)
        self._termination = Termination(grace_s, self._watch, self._order)
        self._messages = PeerMessages(*place)
        self._rendezvous = ObjectRendezvous(
            self._messages, share.node, share.nodes, self._wait, hosts=share.hosts, master=share.master
        )
        self._holder = NodeHolder(place, share.node) if share.replaces_nodes else None
        context = AttemptContext(request, private, share, at, self._holder)
        self._runner = AttemptRunner(context, self._watch, self._termination, self._rendezvous)
        self._termination.on_termination = self._runner.on_termination
        self._tries = 0
        self.end: Optional[Outcome] = None

    def run(self) -> int:
        """Make the attempts of the run. Blocks. 0 when the run succeeded, else the exit code of its command,
        or 1 when there is none.
        """
        status = 1
        try:
            over = patiently(self._messages.end, self._wait)
            if over is not None:
                _print(f"{self.share.run_id} has already ended: {over['state']}; nothing is started")
                status = retries.status(over["state"], over.get("exit_code"))
                self.end = decode(over)
                self._clear(status)
            else:
                if self._holder is not None:
                    patiently(self._holder.take, self._wait)
                status = self._lead() if self.share.node == 0 else self._follow()
        except Terminated:
            _print(str(TERMINATED.detail))
        except PeersMissing as words:
            _print(str(words))
        except ObjectsError as error:
            _print(f"the store of the run cannot be used: {error}")
        finally:
            self._runner.finish(status)
        return status

    def _wait(self, seconds: float) -> bool:
        self._watch.wait(-1, seconds)
        return not self._termination.is_terminated

    # -- node 0

    def _lead(self) -> int:
        history = patiently(self._history, self._wait)
        before = _unwritten_end(self.request, history)
        if before is None and self._order is not None and self._order.read() is not None:
            before = STOPPED._replace(ended_at=time.time())
        if before is not None:
            return self._close(before, history)
        while True:
            attempt = self._claim_attempt(max((one["number"] for one in history), default=0) + 1)
            begun = time.time()
            try:
                membership = self._join(attempt)
            except PeersMissing as words:
                if self.share.replaces_nodes:
                    raise  # the service starts this node again, when it has the others too
                result = Outcome(State.LOST, Reason.NODE_FAILURE, str(words), ended_at=time.time())
                return self._close(result, [*history, attempt_record(attempt, result, [], begun)])
            own = self._runner.make(attempt, membership)
            exits: List[Optional[ExitFields]] = [own]
            if not _is_preempted(own):
                exits = self._rendezvous.collect(own)
            result = _judged(exits)
            history.append(attempt_record(attempt, result, [], begun))
            _print(_attempt_words(attempt, result.state, result.detail))
            if (
                self.share.replaces_nodes
                and result.state == State.LOST
                and not self._termination.is_terminated
            ):
                continue  # the service replaces the nodes that were lost, and this one waits for them
            is_last = not _is_retried(self.request, history)
            if result.reason == Reason.PREEMPTED or (self._termination.is_terminated and not is_last):
                # the service decides whether to start the job again
                return retries.status(result.state, result.exit_code)
            if is_last:
                return self._close(result, history, has_peers=True)

    def _is_repaired(self, result: Outcome) -> bool:
        """Whether the service replaces the nodes that were lost, while this one waits for them."""
        is_lost = result.state == State.LOST and not self._termination.is_terminated
        return self.share.replaces_nodes and is_lost

    def _join(self, attempt: int) -> Membership:
        self._rendezvous.propose(attempt, self._port())
        membership = self._rendezvous.join()
        assert membership is not None, "only the other nodes learn of the end by `join`"
        return membership

    def _history(self) -> List[AttemptFields]:
        """The attempts that were made before the service restarted the job.

        The last attempt counts as a success only if its outputs are in the store; otherwise its files are
        lost.
        """
        found: List[AttemptFields] = []
        for number, begun in sorted(self._messages.attempts().items()):
            exits = [self._messages.exit_record(number, node) for node in range(self.share.nodes)]
            facts = AttemptRecords(_preempted_or_all(exits), True)
            found.append(retries.earlier(number, facts, begun or time.time(), "the service started it again"))
        if (
            found
            and found[-1]["state"] == State.SUCCEEDED
            and not self._rendezvous.is_sent(found[-1]["number"])
        ):
            last = found[-1]
            last["state"], last["reason"] = State.LOST.value, Reason.NODE_FAILURE.value
            last["exit_code"], last["detail"] = None, _UNSENT
        return found

    def _claim_attempt(self, number: int) -> int:
        """Claim an attempt, from `number` on; the number that was claimed. No other process can claim it
        again.
        """
        for one in range(number, number + _MOST_CLAIMS):
            if patiently(lambda: self._messages.claim(f"begun.{one}", {"at": time.time()}), self._wait):  # noqa: B023
                return one
        raise PeersMissing(
            f"other processes have claimed all attempts from {number} to {number + _MOST_CLAIMS - 1}"
        )

    def _port(self) -> int:
        """The port for ranks. Each further attempt uses the next port, since processes of the last attempt
        may still hold theirs.
        """
        self._tries += 1
        return free_port() if self.share.port is None else self.share.port + self._tries - 1

    def _close(self, result: Outcome, history: List[AttemptFields], *, has_peers: bool = False) -> int:
        """Send everything to the store, and the line of the end last; the exit status. With `has_peers`,
        other nodes have joined, and wait for the end.

        If the service ends this node before the other nodes of a success have sent their files, no end is
        written: the job's next start finds out whether they have.
        """
        status = retries.status(result.state, result.exit_code)
        try:
            if not self._send(status, has_peers=has_peers):
                words = "its files could not be sent to the store"
                result = result._replace(detail="; ".join(one for one in (result.detail, words) if one))
        except Terminated:
            if result.state == State.SUCCEEDED and self._rendezvous.has_reached:
                return status
        if self._holder is not None and not self._holder.holds(now=True):
            return status  # the process that has taken over decides how the run ends
        line = end_line(self.share.run_id, self.share.row, result, history)
        patiently(lambda: self._messages.write_end(line), self._wait_always)
        self.end = result
        self._clear(status)
        return status

    def _clear(self, status: int) -> None:
        """Remove the messages of the run's nodes. Also called when an earlier start of the job was ended
        while it did this.
        """
        if self.share.node != 0:
            return
        try:
            is_last = self.share.row is None and not self.share.keeps_secrets
            patiently(lambda: self._messages.clear(status, is_last=is_last), self._wait)
        except (ObjectsError, Terminated) as error:
            _print(f"the messages of the run's nodes could not be removed: {str(error) or TERMINATED.detail}")

    def _send(self, status: int, *, has_peers: bool) -> bool:
        """Send the files of this node, and wait for the other nodes; False when the store did not take this
        node's.
        """
        if has_peers:
            self._rendezvous.announce_end(status)
        is_sent = self._runner.send()
        if has_peers:
            self._rendezvous.publish_sent(is_sent)
            self._rendezvous.leave()
        return is_sent

    def _wait_always(self, seconds: float) -> bool:
        self._watch.wait(-1, seconds)
        return True

    # -- the others

    def _follow(self) -> int:
        rendezvous = self._rendezvous
        while True:
            membership = rendezvous.join()
            plan = rendezvous.current
            if membership is None:
                break
            own = self._runner.make(plan.attempt, membership)
            _print(_attempt_words(plan.attempt, own["state"], own["detail"]))
            if _is_preempted(own):
                return retries.status(own["state"], own["exit_code"])
        is_sent = self._runner.send()
        try:
            if plan.life:
                rendezvous.publish_sent(is_sent)
            rendezvous.leave()
            over = patiently(self._messages.end, self._wait)
            self.end = None if over is None else decode(over)
        except Terminated:
            pass  # this node is about to end anyway
        return 1 if plan.over is None else plan.over


def _attempt_words(number: int, state: str, detail: Optional[str]) -> str:
    return f"attempt {number}: {state}" + (f", {detail}" if detail else "")


def _is_preempted(record: ExitFields) -> bool:
    return bool(record["reason"] == Reason.PREEMPTED)


def _preempted_or_all(exits: List[Optional[ExitFields]]) -> List[Optional[ExitFields]]:
    """The records of nodes that the service ended; all records when there are none. Other failures in
    such an attempt are consequences.
    """
    return [one for one in exits if one is not None and _is_preempted(one)] or exits


def _judged(exits: List[Optional[ExitFields]]) -> Outcome:
    result = retries.judge(AttemptRecords(_preempted_or_all(exits), True))
    missing = [str(node) for node, record in enumerate(exits) if record is None]
    if missing and result.state == State.LOST:
        result = result._replace(detail=f"node {', '.join(missing)} left no record of its end")
    return result


def _unwritten_end(request: NodeRequest, history: List[AttemptFields]) -> Optional[Outcome]:
    """The end of a run whose node 0 was killed just before it wrote the line of the end; None otherwise."""
    if not history:
        return None
    result = decode(history[-1])
    is_over = result.state == State.SUCCEEDED or (
        result.state == State.FAILED and not _is_retried(request, history)
    )
    return result if is_over else None


def _is_retried(request: NodeRequest, history: List[AttemptFields]) -> bool:
    return retries.should_retry(history, retries=request.retries, retry_on=request.retry_on)


def _print(words: str) -> None:
    print(f"gofer: {words}", file=sys.stderr, flush=True)
