"""Bytes that somebody else wrote, such as a log, made harmless for a terminal.

A terminal obeys what it is shown: escape sequences change its title, fill its clipboard, move the cursor over
lines that were printed before, or make it answer as if a person had typed. Colours and styles (SGR) pass, and
so do tabs, line ends and carriage returns, with which progress bars are drawn. Everything else is left out.
"""

from __future__ import annotations

import codecs
import re

_PART = re.compile(
    r"(?P<style>\x1b\[[0-9;:]*m)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # any other control sequence
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # title, clipboard, device strings
    r"|\x1b[ -/]*[0-Z\\`-~]?"  # short escapes, and an escape character that begins nothing
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]"
)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
# A sequence that is longer than this is no sequence.
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
