"""Apply the limits of a run and of its group to the files that a command wrote.

If the disk of the node outlives the run, either all files are kept or all stay on the disk. Otherwise the
newest files are kept.
"""

from __future__ import annotations

import os
from typing import List, NamedTuple, Optional, Tuple

from gofer.node.kept import rules
from gofer.node.kept.rules import Candidate, KeepRules, KeptSelection
from gofer.node.kept.tally import ByteTally

RUN_LIMIT = "keep"
GROUP_LIMIT = "keep_group"


class Keeping(NamedTuple):
    """Where a node keeps files. `copies` are folders for working copies that exceed the limit, the best
    first; empty when the disk does not outlive the run. `tally` counts what the rows of a group have kept.
    `record` is the file for gofer.node.kept.copy_record; None when no supervisor would keep the files of a
    dead agent.
    """

    copies: Tuple[str, ...] = ()
    tally: Optional[ByteTally] = None
    record: Optional[str] = None


class Portion(NamedTuple):
    """The files to keep, the files that are too much, and the setting that limits them; None when all are
    kept.
    """

    wanted: List[Candidate]
    too_much: List[Candidate]
    limit: Optional[str] = None


class KeepLimit:
    """The limits of one attempt. `code` is the working copy. With `is_folder` the store is a folder, where
    holes of sparse files take no space, so they do not count. `counted` are bytes that an earlier attempt
    kept and that the group has already counted.
    """

    def __init__(self, rules: KeepRules, keeping: Keeping, code: str, *, is_folder: bool) -> None:
        self._rules = rules
        self._keeping = keeping
        self._code = code
        self._is_folder = is_folder
        self.counted = 0

    def divide(self, found: KeptSelection) -> Portion:
        """Divide the files that were found, and count the kept bytes for the group. Call once per attempt.

        Outputs are always wanted. The limits apply to the other files, those beside the code; a limit of 0
        keeps none of them, and the setting is then not named, because nothing was exceeded.
        """
        limit = self._rules.limit
        if not found.others or not limit:
            return Portion(found.outputs, found.others)
        size = self._size(found)
        if self._keeping.copies:
            # The disk outlives the run, so nothing is lost when all the files stay there. A part of them in
            # the store would be neither whole nor the person's choice.
            is_within = size <= limit
            if is_within and self._take(size, whole=True) == size:
                return Portion([*found.outputs, *found.others], [])
            return Portion(found.outputs, found.others, GROUP_LIMIT if is_within else RUN_LIMIT)
        return self._newest(found, size)

    def _newest(self, found: KeptSelection, size: int) -> Portion:
        """The newest files: above the limit of the run up to `most`, which includes the outputs, because what
        is left out is lost with the node.
        """
        most = size
        if size > self._rules.limit:
            room = self._rules.most - sum(one.size for one in found.outputs)
            most = min(size, max(room, self._rules.limit))
        taken = self._take(most, whole=False)
        if taken == size:
            return Portion([*found.outputs, *found.others], [])
        kept, left = rules.newest_first(found.others, taken)
        name = GROUP_LIMIT if taken < most else RUN_LIMIT
        return Portion([*found.outputs, *kept], left, name if left else None)

    def _take(self, size: int, *, whole: bool) -> int:
        """How many bytes the group still has for this run, up to `size`; with `whole`, all of them or none. A
        run that is no row has no group, and gets all.
        """
        if self._keeping.tally is None:
            return size
        before = min(self.counted, size)
        return before + self._keeping.tally.take(size - before, self._rules.group_limit, whole=whole)

    def _size(self, found: KeptSelection) -> int:
        if found.size <= self._rules.limit or not self._is_folder:
            return found.size
        return sum(self._on_disk(one) for one in found.others)

    def _on_disk(self, one: Candidate) -> int:
        try:
            return min(one.size, os.lstat(os.path.join(self._code, one.path)).st_blocks * 512)
        except OSError:
            return one.size
