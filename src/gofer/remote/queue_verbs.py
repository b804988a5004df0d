"""Verbs for a machine's queue; `queue_home` is the queue's folder there.

A verb that adds work makes sure that a supervisor runs, and returns whether it had to start one.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any, Dict, List, Optional

from gofer.core import files, gpus, processes
from gofer.core.secrets import run_secrets
from gofer.core.states import State
from gofer.queue import wake
from gofer.queue.database import Queue
from gofer.remote.answer import Answer

# In a request, instead of a number of GPUs: as many as the driver of the machine reports.
AS_SHOWN = -1


def in_full(path: str) -> str:
    """Expand `~` and `{host}`, the name of this machine. Machines may share a home, but not a queue."""
    return os.path.expanduser(path).replace("{host}", os.uname().nodename)


def facts(data: bytes, queue_home: str) -> Answer:
    """What the machine has, and the number of the queue's runs in each state."""
    whole = in_full(queue_home)
    with closing(Queue(whole)) as queue:
        counts = queue.counts()
        running = [run for run in queue.load_open() if run.state != State.QUEUED]
        layouts = [queue.load_request(run.request)["layout"] for run in running]
    return Answer(
        {
            "cpus": len(os.sched_getaffinity(0)),
            "gpus": gpus.count(),
            "counts": counts,
            "gpus_busy": sum(len(node) for run in running for node in run.gpus),
            "cpus_busy": sum(it["nodes"] * it["procs_per_node"] * it["cpus_per_proc"] for it in layouts),
            "queue_home": whole,
            "usage": gpus.sample(),
            "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
            "host": os.uname().nodename,
        }
    )


def seal(data: bytes, queue_home: str, run_id: str, values: Dict[str, Any], inherit: bool = False) -> Answer:
    """Keep a run's secrets.

    With `inherit`, the run's variables are added to those of a login on this machine.
    """
    private = run_secrets.RunSecrets(**values)
    if inherit:
        # GOFER_ and SSH_ variables describe this connection and have no meaning in a run.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("GOFER_", "SSH_"))}
        private = private._replace(environment={**own, **private.environment})
    run_secrets.write(in_full(queue_home), run_id, private)
    return Answer()


def abandoned(data: bytes, queue_home: str) -> Answer:
    """The secrets of submitters that died before they confirmed them, as path → run id."""
    return Answer(run_secrets.abandoned(in_full(queue_home)))


def add(data: bytes, queue_home: str, body: Dict[str, Any], runs: List[Any]) -> Answer:
    whole = in_full(queue_home)
    # Confirmed first: from now on, the secrets are not removed as abandoned.
    run_secrets.confirm(whole, body["id"])
    with closing(Queue(whole)) as queue:
        queue.add(_in_full(body), runs)
    return Answer(wake.ensure(whole) is not None)


def _in_full(body: Dict[str, Any]) -> Dict[str, Any]:
    """The request with the values that only this machine knows."""
    whole = {**body, "store": in_full(body["store"])}
    if body["gpus"] == AS_SHOWN:
        whole["gpus"] = gpus.count()
        whole["block"] = max(whole["gpus"], 1)
    return whole


def observe(data: bytes, queue_home: str, ids: List[str]) -> Answer:
    """The runs with these ids or of these groups: [whether a supervisor was started, the observations]."""
    whole = in_full(queue_home)
    with closing(Queue(whole)) as queue:
        seen = queue.observe(ids)
    is_open = any(one.state in ("queued", "starting", "running") for one in seen)
    started = is_open and wake.ensure(whole) is not None
    return Answer([started, [run._asdict() for run in seen]])


def cancel(data: bytes, queue_home: str, ids: List[str], grace_s: Optional[float] = None) -> Answer:
    whole = in_full(queue_home)
    with closing(Queue(whole)) as queue:
        queue.ask_cancel(ids, grace_s)
    return Answer(wake.ensure(whole) is not None)


def last_words(data: bytes, queue_home: str) -> Answer:
    """The end of the supervisors' log: [path, last line]."""
    log = os.path.join(in_full(queue_home), "supervisor.log")
    return Answer([log, "".join(files.tail_lines(log, 1))])


def supervisor(data: bytes, queue_home: str) -> Answer:
    """Whether a supervisor answers, its process id and its process state; null without such a process."""
    whole = in_full(queue_home)
    try:
        with open(os.path.join(whole, "supervisor.lock")) as file:
            # The file is empty between its creation and the supervisor's first write.
            pid = int(file.read() or 0)
    except (OSError, ValueError):
        pid = 0
    found = processes.stat(pid) if pid else None
    return Answer([wake.poke(whole), pid if found else None, found.state if found else None])


def waiting(data: bytes, queue_home: str, run_id: str) -> Answer:
    """What a run waits for; null when it does not wait. See gofer.queue.why_waiting."""
    from gofer.queue import why_waiting

    return Answer(why_waiting.waiting(in_full(queue_home), run_id))


def shell(
    data: bytes, queue_home: str, run_id: str, command: List[str], terminal: bool, node: Optional[int]
) -> Answer:
    """The command that opens a shell beside a run on this machine; null when the run, or that node of the
    run, has no living process here.
    """
    from gofer.node import run_shell

    return Answer(run_shell.program(run_id, command, terminal=terminal, node=node))


VERBS = {
    "queue.facts": facts,
    "queue.seal": seal,
    "queue.abandoned": abandoned,
    "queue.add": add,
    "queue.observe": observe,
    "queue.cancel": cancel,
    "queue.last_words": last_words,
    "queue.supervisor": supervisor,
    "queue.waiting": waiting,
    "queue.shell": shell,
}
