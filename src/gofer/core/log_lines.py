"""The lines of a log as a terminal would finally show them. Pure."""

from __future__ import annotations


def last_states(data: bytes) -> bytes:
    """`data` with only the final state of each line: a progress bar that was text with `\\r` becomes one
    line.

    Line ends stay as they are. An unfinished last line is treated in the same way.
    """
    if b"\r" not in data:
        return data
    return b"\n".join(_last_state(line) for line in data.split(b"\n"))


def _last_state(line: bytes) -> bytes:
    text = line.rstrip(b"\r")
    is_windows_end = line.endswith(b"\r") and b"\r" not in text
    return line if is_windows_end else text.rpartition(b"\r")[2]
