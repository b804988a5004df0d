"""Turn the bytes of a log into whole lines: each with a label, or only those that match a pattern. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gofer.core.log_lines import last_states
from gofer.errors import UsageError

# A longer line is given out in several, so that a log without line ends needs no memory without bound.
_LONGEST_LINE = 1 << 20


class LogLines:
    """The lines of one log that arrives in pieces. Each line has only its final state (a progress bar is one
    line), begins with the label, and ends with a newline. A line comes when it is complete.
    """

    def __init__(self, label: str = "", pattern: re.Pattern[str] | None = None) -> None:
        """`label` is put in brackets before each line; `pattern` chooses the lines that it is found in."""
        self._label = f"[{label}] ".encode() if label else b""
        self._pattern = pattern
        self._begun = b""
        # The state of the unfinished line that `progress` has returned.
        self._shown: bytes | None = None

    def add(self, piece: bytes) -> bytes:
        """The lines that this piece completes."""
        whole, newline, begun = (self._begun + piece).rpartition(b"\n")
        self._begun = begun
        if len(begun) > _LONGEST_LINE:
            return self._lines(whole + newline) + self.rest()
        return self._lines(whole + newline)

    def rest(self) -> bytes:
        """The last line, which has no end."""
        begun, self._begun = self._begun, b""
        return self._lines(begun + b"\n") if begun else b""

    def progress(self) -> bytes:
        """The present state of the unfinished line as a line, if it is drawn again and again (a progress
        bar) and has another state than at the last call.
        """
        state = self._begun.rstrip(b"\r").rpartition(b"\r")[2]
        if b"\r" not in self._begun or state in (b"", self._shown):
            return b""
        self._begun, self._shown = b"\r" + state, state
        return self._line(state)

    def of(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of a whole log."""
        for piece in pieces:
            if lines := self.add(piece):
                yield lines
        if lines := self.rest():
            yield lines

    def _lines(self, data: bytes) -> bytes:
        lines = last_states(data).split(b"\n")[:-1]
        shown, self._shown = self._shown, None if lines else self._shown
        if lines and lines[0] == shown:
            del lines[0]
        return b"".join(map(self._line, lines))

    def _line(self, line: bytes) -> bytes:
        return self._label + line + b"\n" if self._is_wanted(line) else b""

    def _is_wanted(self, line: bytes) -> bool:
        return self._pattern is None or bool(self._pattern.search(line.decode("utf-8", "replace")))


def compile_pattern(text: str) -> re.Pattern[str]:
    """The regular expression of `--grep`; UsageError for any other text."""
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"`{text}` is not a regular expression: {error}",
            hint="write a `\\` before a character that stands for itself, such as `\\(`",
        ) from None
