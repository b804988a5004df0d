"""A text on a terminal that is drawn again in its place."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TextIO

from gofer.cli.output.terminal_text import TerminalStream

# Of a terminal that does not know its size.
_LINES = 24
_MORE = "… {} more lines"


class RedrawnText:
    """Draws a text where the text before it was drawn. Nothing else may write to the terminal meanwhile."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0
        self._columns = 0

    def draw(self, lines: list[str]) -> None:
        """Replace the text by these lines, as many as the terminal has room for. The lines must be printable
        and not wider than the terminal.
        """
        size = os.get_terminal_size(self._stream.fileno())
        room = max((size.lines or _LINES) - 1, 2)
        if len(lines) > room:
            lines = [*lines[: room - 1], _MORE.format(len(lines) - room + 1)]
        # In a terminal of another width the old lines take another number of rows: they stay where they are.
        up = f"\x1b[{self._drawn}F" if self._drawn and size.columns == self._columns else ""
        self._write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self._drawn, self._columns = len(lines), size.columns

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        if isinstance(self._stream, TerminalStream):
            self._stream.write_bytes(data)  # erases a line that says what is waited for
            return
        self._stream.flush()
        with suppress(InterruptedError):
            while data:
                data = data[os.write(self._stream.fileno(), data) :]
