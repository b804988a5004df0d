"""The supervisor of one machine's queue: starts on demand, works off the queue, ends when there is no work.

The supervisor may be killed at any moment. Agents continue without it. An agent that notices this, or the
next gofer command, starts another supervisor. The new supervisor finds the agents and everything else in the
queue and the run folders.
"""

from __future__ import annotations

import os
import random
import select
import socket
import time
from typing import Sequence

from gofer.core import attempts, processes, run_layout
from gofer.core.outcome import ExitFields, Outcome, attempt_record
from gofer.core.processes import ProcessIdentity
from gofer.core.retries import should_retry
from gofer.core.states import Reason, State
from gofer.node.rendezvous import run_nodes
from gofer.node.watch import STOP_FOR_PEER
from gofer.queue import scheduler, wake
from gofer.queue.active_run import ActiveRun
from gofer.queue.agent import AgentMessage
from gofer.queue.agent_pool import AgentPool, PooledAgent, Share
from gofer.queue.database import Queue, QueuedRun
from gofer.queue.dependencies import Dependencies
from gofer.queue.elastic_runs import ElasticRuns
from gofer.queue.file_recovery import FileRecovery
from gofer.queue.gpu_leases import GpuSharing
from gofer.queue.journal import Journal

LINGER_S = 3.0
_ADOPTED_CHECK_S = 0.25
_AGAIN_S = 0.5
_LEASE_CHECK_S = 1.0
# For how long files are removed before the queue is looked at again.
_REMOVAL_S = 0.1
_LONGEST_SLEEP_S = 5.0
_LONGEST_DELAY_S = 60.0


class Supervisor:
    """One loop: read what changed, settle what ended, start what fits, write it down. Single-threaded."""

    def __init__(self, queue_home: str) -> None:
        self.queue_home = queue_home
        self.queue = Queue(queue_home)
        self.agents = AgentPool(queue_home)
        self.recovery = FileRecovery(queue_home)
        self.journal = Journal(self.queue)
        self.pool = scheduler.Pool.of_this_machine()
        self.sharing = GpuSharing(queue_home, self.pool, self.journal)
        self.dependencies = Dependencies(self.queue)
        self.elastic = ElasticRuns()
        self.waiting: list[QueuedRun] = []
        self.active: dict[str, ActiveRun] = {}
        self.boot = processes.boot_id()
        self._last_seq = 0
        self._seen_version = -1
        self._head: str | None = None
        self._head_since = 0.0
        self._put_off_until = 0.0
        self._idle_since: float | None = None
        self._fifo = -1

    def run(self) -> None:
        """Work off the queue until there has been nothing to do for LINGER_S. Blocks."""
        self._listen()
        while True:
            self._load()
            self._receive()
            self._stop_asked()
            self._stop_never_started()
            self._replace_agents()
            self._start_fitting()
            self.agents.dismiss(keep=self.pool.cpus)
            if not self.journal.write():
                self._put_off_until = time.monotonic() + _AGAIN_S
            self.journal.remove_left(_REMOVAL_S)
            if self._may_leave():
                self.agents.dismiss(keep=0)
                self.journal.uploader.close()
                return
            if self._read_dependencies():
                continue  # the end of a run that others wait for was written just now
            self._sleep()

    # -- sleeping and leaving

    def _listen(self) -> None:
        path = wake.fifo(self.queue_home)
        if not os.path.exists(path):
            os.mkfifo(path, 0o600)
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Stop listening: from here on, `wake.poke` returns False."""
        os.close(self._fifo)

    def _sleep(self) -> None:
        now, wall = time.monotonic(), time.time()
        until = [now + _LONGEST_SLEEP_S, *(one.next_request_at for one in self.active.values())]
        until += self.elastic.next_at()
        if any(one.adopted for one in self.active.values()):
            until.append(now + _ADOPTED_CHECK_S)
        if not self.journal.is_written:
            until.append(self._put_off_until)
        if self.journal.is_removing:
            until.append(now)
        if self.pool.foreign and self.waiting:
            until.append(now + _LEASE_CHECK_S)
        if self._idle_since is not None:
            until.append(self._idle_since + LINGER_S)
        until += [now + one.not_before - wall for one in self.waiting[:64] if one.not_before > wall]
        watched = [self._fifo, *self.agents.connections, *self.journal.uploader.connections]
        ready, _, _ = select.select(watched, [], [], max(0.0, min(until) - now))
        if self._fifo in ready:
            _drain(self._fifo)

    def _may_leave(self) -> bool:
        """Whether the supervisor may end. The FIFO is closed before the last check of the queue: a run that
        is added after that check gets a new supervisor, because its submitter finds nobody listening.
        """
        if self.active or self.waiting or not self.journal.is_empty:
            self._idle_since = None
            return False
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since < LINGER_S:
            return False
        self.close()
        if not self.queue.has_open():
            return True
        self._idle_since = None
        self._listen()
        return False

    # -- changes

    def _receive(self) -> None:
        for share, who, what, at in self.agents.reports():
            one = self.active.get(share.run_id)
            # A dead agent may have been noticed before its report. Then another process has its share.
            if one is None or one.left.get(share) != who:
                continue
            if what == "started":
                self._mark_running(one.entry, at)
            else:
                self._agent_gone(one, share)
        for one in [one for one in self.active.values() if one.adopted]:
            self._check_adopted(one)

    def _check_adopted(self, one: ActiveRun) -> None:
        """Check a run whose agents an earlier supervisor started. These agents cannot report to this one, so
        read their run folder and check which are alive.
        """
        if one.entry.state == State.STARTING and self._has_started(one):
            self._mark_running(one.entry, time.time())
        gone = [
            share
            for share, who in one.left.items()
            if not processes.is_alive(who) or self._works_elsewhere(one, share)
        ]
        for share in gone:
            self._agent_gone(one, share)
        if not one.left and one.entry.id in self.active and not self.elastic.has_vacancy(one):
            self._settle_when_all_ended(one)

    def _works_elsewhere(self, one: ActiveRun, share: Share) -> bool:
        """Whether the agent of a share has ended it and works for another run. An earlier supervisor can have
        given the agent to that run before the end of this one was in the queue.
        """
        others = [other for other in self.active.values() if other is not one]
        is_busy = any(one.left[share] in other.left.values() for other in others)
        return is_busy and _exit_record(one, share) is not None

    def _send(self, one: ActiveRun, number: int) -> None:
        """Send a request to the agents that still have a share of the run."""
        for share, who in one.left.items():
            if not one.adopted or _exit_record(one, share) is None:
                processes.send(who, number)

    def _has_started(self, one: ActiveRun) -> bool:
        return attempts.read(one.store, one.entry.id, one.entry.attempt, one.nodes).started

    def _mark_running(self, entry: QueuedRun, at: float) -> None:
        if entry.state == State.STARTING:
            entry.state = State.RUNNING.value
            entry.started_at = at
            self.journal.note(entry)

    def _load(self) -> None:
        version = self.queue.version()
        if version == self._seen_version:
            return
        self._seen_version = version
        for entry in self.queue.load_open(self._last_seq):
            self._last_seq = entry.seq
            self.journal.opened(entry)
            if entry.state == State.QUEUED:
                self.waiting.append(entry)
            else:
                self._take_over(entry)
        self.waiting.sort(key=lambda one: one.order)
        asked = dict(self.queue.load_cancels())
        for entry in self.waiting if asked else ():
            entry.cancel_grace_s = asked.get(entry.id)
        for run_id in asked.keys() & self.active.keys():
            self.active[run_id].ask_to_stop(asked[run_id])

    def _take_over(self, entry: QueuedRun) -> None:
        """Adopt a run that an earlier supervisor started. Its agents may be alive or have ended in the
        meantime.
        """
        request = self.journal.request(entry)
        demand = scheduler.demand_of(request, cores=self.pool.cpus)
        grant = scheduler.Grant(entry.gpus, demand.cpus, demand.memory_mib)
        self.pool.take(grant)
        self.active[entry.id] = ActiveRun(entry, request, grant, adopted=True)
        self.journal.started(entry)

    # -- ends

    def _agent_gone(self, one: ActiveRun, share: Share) -> None:
        """An agent finished its share or died. When the share did not succeed, stop the run's other
        agents.
        """
        who = one.left.pop(share)
        if one.request.elastic is not None:
            if not self.elastic.lost(one, share, who) and not one.left:
                self._settle_when_all_ended(one)
            return
        record = _exit_record(one, share)
        if record is None and self._other_agent(one, share, who):
            return
        if record is None and one.entry.boot == self.boot:
            # Only when the machine has not restarted since: no process outlives a restart, and the old pids
            # belong to other processes now.
            busy = {agent.pid for other in self.active.values() for agent in other.left.values()}
            uploader = self.journal.uploader.pid
            self.agents.sweep(one.store, share, who, spared=busy if uploader is None else busy | {uploader})
        if record is None or record["state"] != State.SUCCEEDED:
            self._send(one, STOP_FOR_PEER)
        if record is None and self._keep_files(one, share):
            return
        self.recovery.end(share)
        if not one.left:
            self._settle_when_all_ended(one)

    def _keep_files(self, one: ActiveRun, share: Share) -> bool:
        """Start a process that keeps the files of a dead agent's command; False when there is nothing to
        keep. The process holds the share until it ends.
        """
        message = one.message(share, queue_home=self.queue_home, port=0)
        who = self.recovery.start(share, message, one.request, self.journal.private(one.entry))
        if who is None:
            return False
        one.left[share] = who
        one.adopted = True
        return True

    def _settle_when_all_ended(self, one: ActiveRun) -> None:
        """Settle the run, unless nodes on other machines have neither reported their end nor gone silent.
        Such a run is checked again later.
        """
        if one.spans and run_nodes.was_begun(*one.where) and not run_nodes.has_ended(*one.where):
            one.adopted = True
            return
        self._settle(one)

    def _other_agent(self, one: ActiveRun, share: Share, who: ProcessIdentity) -> bool:
        """Whether another live agent has the share. It was started for an earlier, lost queue file."""
        found = attempts.agent_of(one.store, *share)
        if found is None or found == who or not processes.is_alive(found):
            return False
        one.left[share] = found
        one.adopted = True
        return True

    def _settle(self, one: ActiveRun) -> None:
        """All agents of an attempt are gone. Start the attempt again, queue another attempt, or end the
        run.
        """
        entry = one.entry
        del self.active[entry.id]
        self.sharing.give_back(one)
        if one.request.elastic is not None:
            self._end(entry, self.elastic.settle(one))
            return
        facts = attempts.read(one.store, entry.id, entry.attempt, one.nodes)
        if one.spans and not run_nodes.was_begun(*one.where):
            self._try_again_later(entry)
            return
        result = attempts.judge(facts, restarts=entry.restarts, rebooted=entry.boot != self.boot)
        is_cancelled = entry.cancel_grace_s is not None
        if result.state == State.QUEUED and not is_cancelled:
            entry.restarts += 1
            entry.attempt -= 1
            self._wait_again(entry)
            return
        if result.state in (State.QUEUED, State.LOST) and is_cancelled:
            result = result._replace(state=State.CANCELLED, reason=Reason.USER, detail="aborted")
        entry.attempts.append(attempt_record(entry.attempt, result, entry.gpus, entry.started_at))
        policy = one.request
        if should_retry(
            entry.attempts,
            retries=policy.retries,
            retry_on=policy.retry_on,
            is_cancelled=is_cancelled,
        ):
            entry.not_before = time.time() + min(_LONGEST_DELAY_S, 2.0 ** (len(entry.attempts) - 1))
            self._wait_again(entry)
            return
        self._end(entry, result)

    def _try_again_later(self, entry: QueuedRun) -> None:
        """The other machines were not free at the same time. Each waits for a random time before the next
        try, so that two runs do not block each other again and again.
        """
        if entry.cancel_grace_s is not None:
            self._end(entry, attempts.stopped_waiting("aborted while it waited for other machines"))
            return
        entry.attempt -= 1
        entry.not_before = time.time() + random.uniform(1.0, 4.0)
        self._wait_again(entry)

    def _wait_again(self, entry: QueuedRun) -> None:
        entry.state = State.QUEUED.value
        self.journal.note(entry)
        self.waiting.append(entry)
        self.waiting.sort(key=lambda one: one.order)

    def _end(self, entry: QueuedRun, result: Outcome) -> None:
        entry.end(result)
        self.journal.ended(entry)

    # -- stops

    def _stop_asked(self) -> None:
        stopped = [one for one in self.waiting if one.cancel_grace_s is not None]
        if stopped:
            self.waiting = [one for one in self.waiting if one.cancel_grace_s is None]
        for entry in stopped:
            words = "while it waited for its next attempt" if entry.attempts else "before it was started"
            self._end(entry, attempts.stopped_waiting(f"aborted {words}"))
        now = time.monotonic()
        for one in self.active.values():
            request = one.next_request(now)
            if request is not None:
                self._send(one, request)

    def _read_dependencies(self) -> bool:
        requests = {entry.request: entry for entry in self.waiting}.values()
        return self.dependencies.read(self.journal.request(entry) for entry in requests)

    def _stop_never_started(self) -> None:
        """End the runs that wait for a run that did not end as they need."""
        self._read_dependencies()
        doomed = [one for one in self.waiting if self.dependencies.of(one.request).never]
        if doomed:
            self._no_longer_waiting(doomed)
        for entry in doomed:
            words = self.dependencies.of(entry.request).never
            self._end(entry, Outcome(State.CANCELLED, Reason.DEPENDENCY, words, ended_at=time.time()))

    # -- starts

    def _start_fitting(self) -> None:
        now, wall = time.monotonic(), time.time()
        if not self.waiting or self.pool.free_cpus <= 0 or now < self._put_off_until:
            return
        self.sharing.read_others(self.waiting)
        # A retry further away than the longest delay means that the clock was set back; such a run starts
        # now.
        ready = (
            one
            for one in self.waiting
            if not wall < one.not_before <= wall + _LONGEST_DELAY_S
            and self.dependencies.of(one.request).may_start
        )
        held = [scheduler.HeldGrant(one.grant, one.ends_at) for one in self.active.values()]
        passed_over_s = now - self._head_since if self._head is not None else 0.0
        starts, head = scheduler.choose(
            ready, self._demand, self.pool, held, now=now, passed_over_s=passed_over_s
        )
        if head is None or head.id != self._head:
            self._head, self._head_since = (None if head is None else head.id), now
        if starts:
            self._start(starts)
        if head is not None:
            self.sharing.wait()

    def _demand(self, entry: QueuedRun) -> scheduler.Demand:
        return scheduler.demand_of(self.journal.request(entry), cores=self.pool.cpus)

    def _start(self, starts: list[tuple[QueuedRun, scheduler.Grant]]) -> None:
        """Start runs. The starts are committed to the queue before any agent receives its share, so that a
        supervisor that takes over knows of every start.
        """
        reserved = self.agents.reserve(sum(len(grant.gpus) for _, grant in starts))
        agents_of = {entry.id: [reserved.pop() for _ in grant.gpus] for entry, grant in starts}
        starts = self.sharing.take(starts, agents_of)
        for entry, grant in starts:
            entry.state, entry.boot, entry.gpus = State.STARTING.value, self.boot, grant.gpus
            entry.agents = [list(agent.who) for agent in agents_of[entry.id]]
            entry.attempt += 1
            self.journal.note(entry)
        if not self.journal.save():
            for entry, grant in starts:
                entry.state = State.QUEUED.value
                entry.attempt -= 1
                self.pool.give_back(grant)
            self._put_off_until = time.monotonic() + _AGAIN_S
            return
        self._no_longer_waiting([entry for entry, _ in starts])
        for entry, grant in starts:
            one = ActiveRun(entry, self.journal.request(entry), grant, adopted=False)
            self.active[entry.id] = one
            self.journal.started(entry)
            self._assign(one, sorted(one.left), agents_of[entry.id])

    def _replace_agents(self) -> None:
        """Give shares of elastic runs whose agents died another agent, which is in the queue first."""
        due = self.elastic.due()
        for one in [one for one in self.active.values() if one.request.elastic is not None]:
            if not one.left and not self.elastic.has_vacancy(one):
                self._settle(one)
        for run, share, _ in due:
            [agent] = self.agents.reserve(1)
            if not self.sharing.retake(run, share, agent.who):
                self.elastic.postpone(share)
                continue
            run.entry.agents[run.position(share)] = list(agent.who)
            self.journal.note(run.entry)
            if not self.journal.save():
                self._put_off_until = time.monotonic() + _AGAIN_S
                return
            run.left[share] = agent.who
            self.elastic.filled(share)
            self._assign(run, [share], [agent])

    def _no_longer_waiting(self, started: list[QueuedRun]) -> None:
        if self.waiting[: len(started)] == started:
            del self.waiting[: len(started)]  # the usual case, and fast for a long queue
        else:
            self.waiting = [one for one in self.waiting if one.state == State.QUEUED]

    def _assign(self, one: ActiveRun, shares: Sequence[Share], agents: Sequence[PooledAgent]) -> None:
        known: AgentMessage = {
            "request": one.request.encode(),
            "private": self.journal.private(one.entry)._asdict(),
        }
        port = _free_port()
        for share, agent in zip(shares, agents):
            self.agents.assign(agent, share, one.message(share, queue_home=self.queue_home, port=port), known)


def _exit_record(one: ActiveRun, share: Share) -> ExitFields | None:
    """What the agent wrote about the end of its share; None before."""
    return attempts.read_exit(os.path.join(one.store, run_layout.node_key(*share)))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 65536):
            pass
    except BlockingIOError:
        pass
