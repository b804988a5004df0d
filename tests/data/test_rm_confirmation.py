"""`gofer rm` on a terminal: it says how much, asks, and takes no for an answer."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest
from data.project import Project


@pytest.mark.parametrize(
    ("answer", "status", "left"), [("", 1, 1), ("n", 1, 1), ("yesterday", 1, 1), ("y", 0, 0), ("YES", 0, 0)]
)
def test_the_default_is_no(project: Project, answer: str, status: int, left: int) -> None:
    project.write("data/a", b"123")
    project.gofer("u", "data/a")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        project.argv("rm", "data/a"), cwd=project.folder, env=project.environ, stdin=theirs, stderr=theirs
    )
    os.close(theirs)
    result = b""
    while b"[y/N]" not in result:
        result += os.read(ours, 4096)
    assert b"data/a: 1 file, 3 B" in result
    os.write(ours, answer.encode() + b"\n")
    assert process.wait(timeout=60) == status
    os.close(ours)
    assert len(project.objects) == left
