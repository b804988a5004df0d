"""One client's turn: up, again with nothing changed, down; and a listing. What came down is compared."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.data.clients import CLIENTS, Client, ClientContext
from bench.data.place import Service
from bench.data.workload import LARGE, Workload, verify
from bench.errors import BenchError
from bench.measure import Sample
from bench.plan import Plan
from bench.rounds import Competitor

UP, DOWN, RESYNC = "up", "down", "again, nothing changed"

Serve = Callable[[], AbstractContextManager[Service]]


@dataclass(frozen=True)
class TransferRound:
    """The samples of one turn by what was done; a client without the verb has no sample of it."""

    samples: dict[str, Sample]


def movers(plan: Plan, work: Workload, serve: Serve) -> list[Competitor[TransferRound]]:
    """The clients; each turn has the service that `serve` opens for it."""
    return [
        Competitor(client.name, functools.partial(_move, plan, client, work, serve), client.most_rounds)
        for client in CLIENTS
    ]


def listers(plan: Plan, service: Service, container: str) -> list[Competitor[Sample]]:
    """The clients listing `plan.data_listed` objects; BenchError when one says another number of them."""
    context = ClientContext(plan, service, _folder(plan))
    return [
        Competitor(client.name, functools.partial(_list, context, client, container), client.most_rounds)
        for client in CLIENTS
    ]


def _move(plan: Plan, client: Client, work: Workload, serve: Serve) -> TransferRound:
    client_folder = _folder(plan)
    try:
        with serve() as service:
            context = ClientContext(plan, service, client_folder)
            samples = {UP: _settled(lambda: client.upload(context, work).run())}
            resync = client.resync
            if resync:
                samples[RESYNC] = _settled(lambda: resync(context, work).run())
            samples[DOWN] = _settled(lambda: client.download(context, work).run())
        verify(work, client_folder / work.name)
    finally:
        # Many small files stay until the end: for minutes ext4 passes by the places of those just removed,
        # one by one, whenever a file is made.
        if work.name == LARGE:
            shutil.rmtree(client_folder, ignore_errors=True)
    return TransferRound(samples)


def _list(context: ClientContext, client: Client, container: str) -> Sample:
    sample = _settled(client.listing(context, container).run)
    lines = sample.output.splitlines()
    result = int(lines[0]) if len(lines) == 1 and lines[0].isdigit() else len(lines)
    if result != context.plan.data_listed:
        raise BenchError(f"it listed {result:,} objects of {context.plan.data_listed:,}")
    return sample


def _folder(plan: Plan) -> Path:
    return plan.places.fresh("client")


def _settled(take: Callable[[], Sample]) -> Sample:
    """What was written before must not be flushed on this command's time."""
    os.sync()
    return take()
