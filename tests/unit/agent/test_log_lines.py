"""Tails show a progress bar at its last state."""

from __future__ import annotations

from pathlib import Path

import pytest

from gofer.core.files import tail_lines
from gofer.core.log_lines import last_states


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", b""),
        (b"plain\n", b"plain\n"),
        (b"a\n  0%\r 50%\r100%\nb\n", b"a\n100%\nb\n"),
        (b"\r  0%\r 40%", b" 40%"),
        (b"\r  0%\r 40%\r", b" 40%"),
        (b"windows\r\nline ends\r\n", b"windows\r\nline ends\r\n"),
        (b" 10%\r100%\r\nnext", b"100%\nnext"),
        (b"\r\n\r", b"\r\n\r"),
    ],
)
def test_each_line_has_its_last_state(data: bytes, shown: bytes) -> None:
    assert last_states(data) == shown


def test_a_tail_counts_a_bar_as_one_line(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_bytes(b"first\r\nloss\x0b1\n" + b"".join(b"\r%3d%%" % at for at in range(101)) + b"\nlast")
    assert tail_lines(str(log), 3) == ["loss\x0b1", "100%", "last"]
    assert tail_lines(str(log), 9)[0] == "first"
