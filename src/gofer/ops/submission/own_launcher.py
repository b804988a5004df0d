"""Handle commands that are launchers themselves: gofer does not start them once per rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gofer.core.command_launcher import ACCELERATE, DEEPSPEED_NO_SSH, FABRIC, detect, refusal
from gofer.errors import CheckFailed
from gofer.ops.messages import Message

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.model.layout import Layout
    from gofer.ops.session import Session


def recognise(job: Job) -> Job:
    """The job, with one process per node or one in all if its command is a launcher.

    A job with an explicit number of processes per node (`--procs`) is not changed.
    """
    launcher = None if job.resources.procs is not None else detect(job.command)
    if launcher is None:
        return job
    return msgspec.structs.replace(job, command_launcher=launcher.name, multi_process=False, launcher="spawn")


def check(session: Session, job: Job, layout: Layout, *, one_machine: bool) -> None:
    """Tell the person how often the launcher starts; CheckFailed when it cannot run on this number of nodes.

    `one_machine`: all nodes of the target are this machine.
    """
    launcher = detect(job.command) if job.command_launcher is not None else None
    if launcher is None:
        return
    problem = refusal(launcher, job.command, layout.nodes, one_machine=one_machine)
    if problem is not None:
        raise CheckFailed(
            f"`{launcher.name}` cannot run on the {layout.nodes} nodes of this run: {problem}",
            hint="leave out the option: gofer gives each node its number and the master address; "
            "or ask for one node, with fewer GPUs or `-N 1`; `--procs 1` runs it unchanged on each",
        )
    if layout.nodes > 1 or layout.gpus_per_node > 1:
        session.emit(Message(_words(launcher.name, layout)))


def _words(name: str, layout: Layout) -> str:
    other = "`--procs N` starts N per node instead"
    if layout.first_node_only:
        return (
            f"`{name}` reaches the other nodes by itself: it starts once, on the first of {layout.nodes}, "
            f"with their names in the file $GOFER_HOSTFILE; {other}"
        )
    how = ""
    if layout.nodes > 1:
        how = "as options" if name in (ACCELERATE, DEEPSPEED_NO_SSH, FABRIC) else "in its environment"
        how = f", and gets its node number and the master address {how}"
    count = "once" if layout.nodes == 1 else f"once on each of {layout.nodes} nodes"
    return f"`{name}` starts processes itself: it starts {count}{how}; {other}"
