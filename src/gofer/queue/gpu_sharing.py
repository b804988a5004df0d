"""Share the GPUs of a machine between one queue's pool and the other queues of the machine."""

from __future__ import annotations

import sys
from typing import Callable, Dict, Iterable, Optional, Sequence, Set, TypeVar

from gofer.core.processes import ProcessIdentity
from gofer.queue.active import Active
from gofer.queue.agent_pool import PooledAgent
from gofer.queue.database import QueuedRun
from gofer.queue.journal import Journal
from gofer.queue.leases import LeaseFolderError, Leases, usual_folder
from gofer.queue.scheduler import Grant, Pool

T = TypeVar("T")

# Only the first runs of the queue are checked: runs further back do not start soon.
_CHECKED_RUNS = 64


class Sharing:
    """A pool whose GPUs other queues may hold. Runs whose GPUs are not shared never touch the leases."""

    def __init__(self, queue_home: str, pool: Pool, journal: Journal) -> None:
        self._pool = pool
        self._journal = journal
        self._queue_home = queue_home
        self._leases: Optional[Leases] = None
        self._problem = ""
        self._named: Set[int] = set()

    def look(self, waiting: Sequence[QueuedRun]) -> None:
        """Read which GPUs other queues hold, if a waiting run shares GPUs."""
        wants = any(self._is_shared(one) for one in waiting[:_CHECKED_RUNS])
        nothing: set[int] = set()
        self._pool.foreign = self._ask(Leases.taken_by_others, nothing) if wants else nothing

    def take(
        self, starts: Iterable[tuple[QueuedRun, Grant]], teams: dict[str, list[PooledAgent]]
    ) -> list[tuple[QueuedRun, Grant]]:
        """The starts whose GPUs could be leased. Another queue took the GPUs of the others in the meantime;
        their grants go back to the pool.
        """
        allowed = []
        for entry, grant in starts:
            wanted = {gpu: one.who for one, gpus in zip(teams[entry.id], grant.gpus) for gpu in gpus}
            if not self._is_shared(entry) or self._take(wanted):
                allowed.append((entry, grant))
            else:
                self._pool.give_back(grant)
        return allowed

    def _take(self, wanted: Dict[int, ProcessIdentity]) -> bool:
        return self._ask(lambda leases: leases.take(wanted), False)

    def give_back(self, one: Active) -> None:
        self._pool.give_back(one.grant)
        if self._is_shared(one.entry):
            freed = [gpu for gpus in one.grant.gpus for gpu in gpus]
            self._ask(lambda leases: leases.release(freed), None)

    def wait(self) -> None:
        """Tell the other queues that a run here waits for GPUs that they hold."""
        if self._pool.foreign:
            self._ask(Leases.wait, None)

    def _ask(self, question: Callable[[Leases], T], otherwise: T) -> T:
        """The answer of the leases, or `otherwise` when they cannot be used. Then only runs with GPUs wait,
        and the supervisor's log names the problem once. The log also names, once, each user whose files are
        ignored.
        """
        try:
            if self._leases is None:
                self._leases = Leases(usual_folder(), self._queue_home)
            answer = question(self._leases)
        except (LeaseFolderError, OSError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                sys.stderr.write(f"GPUs cannot be shared with other users: {error}\n")
            return otherwise
        for user in self._leases.ignored.keys() - self._named:
            self._named.add(user)
            sys.stderr.write(f"warning: {self._leases.ignored[user]}\n")
        return answer

    def _is_shared(self, entry: QueuedRun) -> bool:
        return bool(self._journal.request(entry)["leased"])
