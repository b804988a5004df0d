"""Make text of others, such as a log, harmless for a terminal.

Escape sequences can change a terminal's title and clipboard, overwrite earlier lines, or make it send input
as if a person had typed. Colours and styles (SGR) are kept, and so are tabs, line ends and carriage returns,
which progress bars use. Everything else is removed.
"""

from __future__ import annotations

import codecs
import io
import re
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from gofer.cli.output.live_line import LiveLine

_PART = re.compile(
    r"(?P<style>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # any other control sequence
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # title, clipboard, device strings
    r"|\x1b[ -/]*[0-Z\\`-~]?"  # short escapes, and an escape character that begins nothing
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
# A longer text is not an escape sequence.
_MOST_HELD = 4096


class TerminalText:
    """One stream of bytes in pieces; a sequence that a piece breaks off is held until the next piece."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def clean(self, data: bytes) -> bytes:
        """What may be shown now of the bytes so far; bytes that are not UTF-8 become U+FFFD."""
        text = self._held + self._decoder.decode(data)
        begun = _BEGUN.search(text)
        self._held = begun[0] if begun and len(begun[0]) <= _MOST_HELD else ""
        shown = text[: len(text) - len(self._held)]
        return _PART.sub(lambda part: part["style"] or "", shown).encode()


# Colours, and the end of a line that a progress bar erases; every other character that is not plain ASCII.
# An erased line counts as a new one.
_LINE_ENDS = ("\n", "\r\x1b[K")
_SUSPECT = re.compile(r"(?P<own>\x1b\[[0-9;:]*[mK])|[^\n\r\t -~]")


class TerminalStream(io.TextIOWrapper):
    """What gofer itself writes as text to a terminal, such as JSON that quotes others.

    A character that does not print is written as `\\u009d`, which in JSON is the same character. `live` is
    the last line of the terminal, which is cleared before anything is written.
    """

    live: ClassVar[LiveLine | None] = None

    def write(self, text: str) -> int:
        with self._covered(text.endswith(_LINE_ENDS)) if text else nullcontext():
            super().write(_SUSPECT.sub(_shown, text))
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Write bytes unchanged, after the text that was written before."""
        with self._covered(data.endswith(b"\n")) if data else nullcontext():
            self.flush()
            self.buffer.write(data)
            self.buffer.flush()

    def _covered(self, ends_line: bool) -> AbstractContextManager[None]:
        return nullcontext() if self.live is None else self.live.covered(ends_line=ends_line)


def _shown(found: re.Match[str]) -> str:
    text = found[0]
    if found["own"] or text.isprintable():
        return text
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def terminal_stream(stream: io.TextIOWrapper) -> TerminalStream:
    """A stream in the place of `stream`, which must stay open: they share a buffer."""
    return TerminalStream(
        stream.buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=stream.line_buffering
    )
