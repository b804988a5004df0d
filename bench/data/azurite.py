"""The emulator of Azure Blob Storage, a fresh one for every turn: lookups slow down with what it holds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from bench.data.place import Service, make_container
from bench.data.server_process import free_port, server_process
from bench.peers import AZURITE
from bench.plan import Plan

_CONTAINER = "bench"


@contextmanager
def azurite(plan: Plan) -> Iterator[Service]:
    """An empty emulator that keeps blobs on disk (in memory mode it stalls for minutes); BenchError."""
    program = plan.peers.program(AZURITE, "blob")
    folder = plan.places.fresh("azurite")
    port = free_port()
    argv = ["node", program, "--silent", "--disableTelemetry"]
    argv += ["--skipApiVersionCheck", "--blobHost", "127.0.0.1", "--blobPort", str(port), "-l", str(folder)]
    service = Service(port, _CONTAINER, _CONTAINER)
    try:
        with server_process(argv, port, log=folder / "azurite.log", env=plan.places.environment()):
            make_container(service, _CONTAINER)
            yield service
    finally:
        shutil.rmtree(folder, ignore_errors=True)
