"""What can be asked of a machine's queue; `engine` is the queue's folder there.

Each verb that leaves work to be done sees to it that a supervisor does it, and says whether it had to start
one.
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

# Instead of a number of GPUs in a request: as many as the driver of the machine shows.
AS_SHOWN = -1


def in_full(path: str) -> str:
    """With `~` and `{host}`, which is this machine's name, replaced: homes may be shared between machines."""
    return os.path.expanduser(path).replace("{host}", os.uname().nodename)


def facts(data: bytes, engine: str) -> Answer:
    """What the machine has, and how many runs of its queue are in which state."""
    whole = in_full(engine)
    with closing(Queue(whole)) as queue:
        counts = queue.counts()
        running = [one for one in queue.load_open() if one.state != State.QUEUED]
        layouts = [queue.load_request(one.request)["layout"] for one in running]
    return Answer(
        {
            "cpus": len(os.sched_getaffinity(0)),
            "gpus": gpus.count(),
            "counts": counts,
            "gpus_busy": sum(len(node) for one in running for node in one.gpus),
            "cpus_busy": sum(one["nodes"] * one["procs_per_node"] * one["cpus_per_proc"] for one in layouts),
            "engine": whole,
            "usage": gpus.sample(),
            "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
            "host": os.uname().nodename,
        }
    )


def seal(data: bytes, engine: str, run_id: str, values: Dict[str, Any], inherit: bool = False) -> Answer:
    """Keep a run's private values; with `inherit`, its environment is added to the one of logins here."""
    private = run_secrets.Private(**values)
    if inherit:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("GOFER_", "SSH_"))}
        private = private._replace(environment={**own, **private.environment})
    run_secrets.write(in_full(engine), run_id, private)
    return Answer()


def abandoned(data: bytes, engine: str) -> Answer:
    """Path → run id of what was sealed by processes that died before they confirmed it."""
    return Answer(run_secrets.abandoned(in_full(engine)))


def add(data: bytes, engine: str, body: Dict[str, Any], runs: List[Any]) -> Answer:
    whole = in_full(engine)
    run_secrets.confirm(whole, body["id"])
    with closing(Queue(whole)) as queue:
        queue.add(_in_full(body), runs)
    return Answer(wake.ensure(whole) is not None)


def _in_full(body: Dict[str, Any]) -> Dict[str, Any]:
    """With what only this machine knows."""
    whole = {**body, "store": in_full(body["store"])}
    if body["gpus"] == AS_SHOWN:
        whole["gpus"] = gpus.count()
        whole["block"] = max(whole["gpus"], 1)
    return whole


def observe(data: bytes, engine: str, ids: List[str]) -> Answer:
    """The runs with these ids and of these groups; [whether a supervisor was started, what was seen]."""
    whole = in_full(engine)
    with closing(Queue(whole)) as queue:
        seen = queue.observe(ids)
    is_open = any(one.state in ("queued", "starting", "running") for one in seen)
    started = is_open and wake.ensure(whole) is not None
    return Answer([started, [one._asdict() for one in seen]])


def cancel(data: bytes, engine: str, ids: List[str], grace_s: Optional[float] = None) -> Answer:
    whole = in_full(engine)
    with closing(Queue(whole)) as queue:
        queue.ask_cancel(ids, grace_s)
    return Answer(wake.ensure(whole) is not None)


def last_words(data: bytes, engine: str) -> Answer:
    """The end of what supervisors complained about."""
    log = os.path.join(in_full(engine), "supervisor.log")
    return Answer([log, "".join(files.tail_lines(log, 1))])


def supervisor(data: bytes, engine: str) -> Answer:
    """Whether a supervisor listens, its process, and the state of that process; null for no process."""
    whole = in_full(engine)
    try:
        with open(os.path.join(whole, "supervisor.lock")) as file:
            pid = int(file.read() or 0)
    except (OSError, ValueError):
        pid = 0
    found = processes.stat(pid) if pid else None
    return Answer([wake.poke(whole), pid if found else None, found.state if found else None])


def waiting(data: bytes, engine: str, run_id: str) -> Answer:
    """What a run waits for; null when it does not wait. See gofer.queue.why_waiting."""
    from gofer.queue import why_waiting

    return Answer(why_waiting.waiting(in_full(engine), run_id))


def shell(
    data: bytes, engine: str, run_id: str, command: List[str], terminal: bool, node: Optional[int]
) -> Answer:
    """The words that open a shell beside a run here; null when none of its processes lives, or none of that
    node of it.
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
