"""Watches Jobs: the API server reports each change, so that nobody has to ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from gofer.backends.base import RunRef
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.errors import GoferError

# More names would make an address too long for the server; gofer then lists the Jobs at intervals.
MOST_WATCHED = 50
_AFTER_ERROR_S = 5.0


def watch_jobs(
    connection: KubernetesConnection, runs: Sequence[RunRef], is_over: Callable[[], bool]
) -> Iterator[None]:
    """Yields after each change of the Jobs of these runs, until `is_over`. Blocks for up to a minute.

    An error is no end: the questions at intervals go on, and report it.
    """
    wanted = ", ".join(dict.fromkeys(names.job_name(run) for run in runs))
    query = {"labelSelector": f"{names.RUN_LABEL} in ({wanted})"}
    path, version = names.jobs_path(connection.namespace), ""
    while not is_over():
        try:
            # Without a version, the server begins with the Jobs as they are.
            for event in connection.client.watch(path, version, query):
                version = event.version or version
                if is_over():
                    return
                if event.change != "BOOKMARK":
                    connection.polling.poke()
                    yield
        except GoferError:
            version = ""
            time.sleep(_AFTER_ERROR_S)
