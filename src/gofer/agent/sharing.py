"""How one queue's pool of GPUs gives way to the other queues of the machine."""

from __future__ import annotations

from typing import Iterable, Sequence

from gofer.agent.active import Active
from gofer.agent.crew import Member
from gofer.agent.journal import Journal
from gofer.agent.leases import Leases, usual_folder
from gofer.agent.queue import Entry
from gofer.agent.scheduler import Grant, Pool

# Deep in a long queue nobody starts soon.
_LOOKED_AT = 64


class Sharing:
    """A pool whose GPUs other queues may hold. Runs whose GPUs are not shared cost nothing here."""

    def __init__(self, engine: str, pool: Pool, journal: Journal) -> None:
        self._pool = pool
        self._journal = journal
        self._leases = Leases(usual_folder(), engine)

    def look(self, waiting: Sequence[Entry]) -> None:
        """Which GPUs others hold, if any run that waits is to share them."""
        wants = any(self._is_shared(one) for one in waiting[:_LOOKED_AT])
        self._pool.foreign = self._leases.taken_by_others() if wants else set()

    def take(
        self, starts: Iterable[tuple[Entry, Grant]], teams: dict[str, list[Member]]
    ) -> list[tuple[Entry, Grant]]:
        """The starts that may be; the GPUs of the others were taken by another queue a moment ago."""
        allowed = []
        for entry, grant in starts:
            wanted = {gpu: one.who for one, gpus in zip(teams[entry.id], grant.gpus) for gpu in gpus}
            if not self._is_shared(entry) or self._leases.take(wanted):
                allowed.append((entry, grant))
            else:
                self._pool.give_back(grant)
        return allowed

    def give_back(self, one: Active) -> None:
        self._pool.give_back(one.grant)
        if self._is_shared(one.entry):
            self._leases.release([gpu for gpus in one.grant.gpus for gpu in gpus])

    def wait(self) -> None:
        """A run would start if others held fewer."""
        if self._pool.foreign:
            self._leases.wait()

    def _is_shared(self, entry: Entry) -> bool:
        return bool(self._journal.request(entry)["leased"])
