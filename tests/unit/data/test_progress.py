"""How far a transfer is: what is drawn, where, and how often."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import time

import pytest

from gofer.cli.output.progress import Display, render
from gofer.transfer import Numbers, TransferProgress

NUMBERS = Numbers("moving", 5000, 1234, 12 << 20, 5000, 163 << 20, 0, 3.0, 51.0 * (1 << 20), 400.0, 3.2)


def test_the_line() -> None:
    assert render(NUMBERS) == "1,234 of 5,000 files, 12.0 MiB of 163.0 MiB, 51.0 MiB/s, 3.2s left"
    assert render(NUMBERS, bar=True).startswith("[#-------------------] 1,234")
    assert render(NUMBERS._replace(failed=2, left_s=None)).endswith("51.0 MiB/s, 2 failed")
    assert render(NUMBERS._replace(bytes=163 << 20), bar=True).startswith("[####################]")
    assert render(NUMBERS._replace(phase="looking")) == "looking: 5,000 files compared"
    assert render(NUMBERS._replace(phase="looking", compared=0)) == ""
    assert render(NUMBERS._replace(phase="deleting")) == "deleting"
    assert render(NUMBERS._replace(phase="done")) == ""
    assert render(NUMBERS._replace(all_files=0)) == ""
    assert render(NUMBERS._replace(all_bytes=0, files=2500), bar=True).startswith("[##########---")


def drawn_on_a_terminal(seconds: float) -> tuple[bytes, float]:
    """What is drawn while it lasts, that long at the least, and how long it lasted."""
    ours, theirs = pty.openpty()
    progress = TransferProgress()
    progress.begin("moving", files=10, size=100)
    began, data = time.monotonic(), b""
    with os.fdopen(theirs, "w") as stream, Display(progress, stream=stream):
        for words in (b"0 of 10 files", b"5 of 10 files"):
            time.sleep(seconds)
            while words not in data:
                data += os.read(ours, 4096)
            progress.add(size=50, files=5)
    took_s = time.monotonic() - began
    with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # EIO: nobody writes
        while piece := terminal.read(4096):
            data += piece
    return data, took_s


def test_a_terminal_is_drawn_over_at_most_ten_times_a_second_and_left_clean() -> None:
    data, took_s = drawn_on_a_terminal(0.5)
    frames = data.split(b"\r")
    assert 2 <= len(frames) <= 4 + 10 * took_s
    assert b"5 of 10 files" in data
    assert data.endswith(b"\r\x1b[K")
    assert b"\n" not in data


def test_without_a_terminal_short_transfers_say_nothing() -> None:
    stream = io.StringIO()
    progress = TransferProgress()
    progress.begin("moving", files=1, size=1)
    with Display(progress, stream=stream):
        time.sleep(0.3)
    assert stream.getvalue() == ""


@pytest.mark.slow
def test_without_a_terminal_there_is_a_line_every_five_seconds_with_the_rate() -> None:
    stream = io.StringIO()
    progress = TransferProgress()
    progress.begin("moving", files=2000, size=20_000_000)
    began = time.monotonic()
    with Display(progress, stream=stream):
        while not stream.getvalue():
            time.sleep(0.5)
            progress.add(size=1000, files=1)
    line, *more = stream.getvalue().splitlines()
    assert 1 + len(more) <= (time.monotonic() - began) / 5
    assert "B/s" in line
    assert "left" in line


def test_quiet_starts_nothing() -> None:
    class Loud(io.StringIO):
        def write(self, text: str) -> int:
            raise AssertionError(text)

        def isatty(self) -> bool:
            return True

    progress = TransferProgress()
    progress.begin("moving", files=1, size=1)
    with Display(progress, quiet=True, stream=Loud()):
        time.sleep(0.3)


def test_a_reader_that_left_does_no_harm() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def isatty(self) -> bool:
            return True

    progress = TransferProgress()
    progress.begin("moving", files=1, size=1)
    with Display(progress, stream=Gone()) as display:
        time.sleep(0.3)
    assert display is not None
