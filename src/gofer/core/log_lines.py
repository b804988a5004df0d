"""The lines of a log as a terminal would show them in the end. Pure."""

from __future__ import annotations


def last_states(data: bytes) -> bytes:
    """`data` with each line at its last state: a progress bar that was drawn with `\\r` is one short line.

    Line ends stay as they are; an unfinished last line has its last state too.
    """
    if b"\r" not in data:
        return data
    return b"\n".join(_last_state(line) for line in data.split(b"\n"))


def _last_state(line: bytes) -> bytes:
    drawn = line.rstrip(b"\r")
    is_windows_end = line.endswith(b"\r") and b"\r" not in drawn
    return line if is_windows_end else drawn.rpartition(b"\r")[2]
