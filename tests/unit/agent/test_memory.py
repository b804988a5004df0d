"""Figures of the kernel about memory."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from gofer.node import memory


def test_the_limit_is_at_most_the_memory_of_the_machine() -> None:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10
    assert 0 < memory.limit_kib() <= whole


def test_a_field_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    file.write_text("low 0\noom 3\noom_kill 2\noom_group_kill x\n\n")
    assert memory.read_field(str(file), "oom_kill") == 2
    assert memory.read_field(str(file), "oom_group_kill") is None
    assert memory.read_field(str(file), "none") is None
    assert memory.read_field(str(tmp_path / "none"), "oom_kill") is None


def test_the_groups_of_this_process_go_outwards() -> None:
    found = list(memory.groups())
    for (folder, name), (outer, outer_name) in pairwise(found):
        assert os.path.isdir(folder)
        assert name == "/" or (os.path.dirname(folder) == outer and outer_name == os.path.dirname(name))
