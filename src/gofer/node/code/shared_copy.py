"""The working copy of a command that starts on the first machine and uses the others, such as `mpirun`.

Such a command starts processes on other machines in the same folder as its own. So its working copy is in the
run's folder, in the store that all machines share, until the run ends. Only its owner may read it.
"""

from __future__ import annotations

import os
from typing import Callable, Iterator

from gofer.core import run_layout
from gofer.core.code import trees
from gofer.node.task import Task


def assign(task: Task) -> Task:
    """The task, with a working copy that all machines can see if its command uses several machines."""
    place = task.place
    if not task.spans or not place.first_node_only or place.node > 0 or task.args:
        return task
    copy = run_layout.shared_copy_key(place.run_id, place.attempt)
    return task._replace(code=os.path.join(task.store, copy, os.path.basename(task.code)))


def link_to(work: str, code: str) -> str:
    """The path of the link in the work folder of a request. `remove` follows this link to the shared copy.

    `code` is the working copy that the task would have without a shared one.
    """
    return os.path.join(work, f"shared-{os.path.basename(os.path.dirname(code))}")


def stage_with(link: str, stage: Callable[[Task], None]) -> Callable[[Task], None]:
    """A function like `stage` that first makes the link: see `link_to`."""

    def stage_there(task: Task) -> None:
        copy = os.path.dirname(task.code)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        trees.remove_tree(link)
        os.symlink(copy, link)
        trees.remove_tree(copy)
        os.makedirs(copy, mode=0o700)
        stage(task)

    return stage_there


def remove_in_steps(work: str) -> Iterator[None]:
    """Remove the shared copies that the links in a work folder point to. Idempotent.

    Yields between the steps, so that the caller can do other work.
    """
    for name in os.listdir(work) if os.path.isdir(work) else ():
        path = os.path.join(work, name)
        if name.startswith(("shared-", "code-")) and os.path.islink(path):
            yield from trees.remove_in_steps(os.readlink(path))
