"""Give every row of an array a clean working copy, at the cost of one copy of the code per agent.

An agent runs its rows one after another. All of them work in the agent's copy, which is reset to the staged
code between two rows, when no process of the earlier row is alive. A copy that cannot be reset, or in which a
process may still be at work, is never used again.
"""

from __future__ import annotations

import os
from typing import Optional

from gofer.core.code import trees
from gofer.node.code import beside_copy, working_copy
from gofer.node.code.stage import stage
from gofer.node.code.working_copy import Changes, Contents
from gofer.node.kept import copy_record
from gofer.node.task import Task


class RowFolders:
    """The copy of one agent. For each row, call `assign`, `fetch`, `prepare`, and then `left` or `abandon`.

    Main thread only.
    """

    def __init__(self) -> None:
        self._pristine = ""
        self._path = ""
        self._known: Optional[Contents] = None
        self._changes: Optional[Changes] = None
        self._made = 0
        self._is_written = False

    def assign(self, task: Task) -> Task:
        """The task with this agent's working copy, which need not exist yet."""
        if task.code != self._pristine or not self._path:
            self._pristine = task.code
            self.abandon()
        return task._replace(code=self._path)

    @property
    def is_fetched(self) -> bool:
        """Whether the code is on this machine, so that only `prepare` is left to do."""
        return self._known is not None

    @property
    def contents(self) -> Contents:
        """The contents of the prepared copy."""
        return self._known or {}

    @property
    def contents_file(self) -> Optional[str]:
        """A file with `contents`, for gofer.node.kept.copy_record: written once for many rows. None when it
        could not be written.
        """
        path = self._path + ".contents"
        if not self._is_written:
            try:
                copy_record.write_contents(path, self.contents)
                self._is_written = True
            except OSError:
                return None
        return path

    def fetch(self, task: Task) -> None:
        """Stage the code on this machine, once for all agents. Blocks. Errors of staging pass through.

        May be called in a child process.
        """
        stage(task._replace(code=self._pristine))

    def prepare(self) -> None:
        """Make the working copy equal to the staged code. Remove what an earlier row wrote beside the copy.

        Call after `fetch`. OSError when that fails.
        """
        beside_copy.remove_all(self._path)
        if self._known is not None and self._is_put_back():
            return
        self._is_written = False
        trees.remove_tree(self._path)
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        trees.copy_tree(self._pristine, self._path)
        self._known = working_copy.scan(self._path)

    def _is_put_back(self) -> bool:
        changes, self._changes = self._changes, None
        try:
            if changes is None:
                changes = working_copy.compare(self._known or {}, working_copy.scan(self._path, opens=True))
            working_copy.put_back(self._path, self._pristine, changes, self._known or {})
            self._is_written = self._is_written and not (changes.altered or changes.deleted)
        except OSError:
            return False
        return True

    def left(self, changes: Optional[Changes]) -> None:
        """Record how the last row changed the copy; None when the copy was not compared."""
        self._changes = changes

    def abandon(self) -> None:
        """Use another copy from now on. The present copy is removed together with the request."""
        self._made += 1
        copy, name = os.path.split(self._pristine)
        self._path = os.path.join(os.path.dirname(copy), f"{os.getpid():x}.{self._made}", name)
        self._known = self._changes = None
