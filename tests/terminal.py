"""A command on a terminal of its own, as a person would type at it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import termios
import time
from pathlib import Path
from types import TracebackType

_PART = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-9]*[FJK]|\r|\n|[^\x1b\r\n]+|\x1b")


def screen(shown: str) -> list[str]:
    """The lines on a terminal in the end. It knows colours, line ends, going up, and the erasing of lines."""
    lines, row, column = [""], 0, 0
    for part in _PART.findall(shown):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part[0] == "\x1b" and part[-1] in "FJK":
            if part[-1] == "F":
                row, column = row - int(part[2:-1] or 1), 0
            else:
                lines = lines[: row + 1] if part[-1] == "J" else lines
                lines[row] = lines[row][:column]
        elif part[0] != "\x1b" or part[-1] != "m":
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + len(part) :]
            column += len(part)
    return lines


class Terminal:
    """One started command; leaving the `with` block ends it."""

    def __init__(self, argv: list[str], *, cwd: Path, env: dict[str, str]) -> None:
        self._master, inner = pty.openpty()
        self._process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
        )
        os.close(inner)
        self.shown = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(60)
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, lines: int, columns: int) -> None:
        """What a window does that changes its size: the terminal is not the controlling one."""
        termios.tcsetwinsize(self._master, (lines, columns))
        self._process.send_signal(signal.SIGWINCH)

    def interrupt(self) -> None:
        """What Ctrl-C does: the terminal is not the controlling one."""
        self._process.send_signal(signal.SIGINT)

    def until(self, text: str, *, times: int = 1, timeout_s: float = 120.0) -> str:
        """All that was shown, once this is among it so many times; AssertionError when it does not come."""
        deadline = time.monotonic() + timeout_s
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, f"{text!r} did not come: {self.shown!r}"
            if not self._read():
                came = self.shown.count(text) >= times
                assert came, f"{text!r} did not come before the end: {self.shown!r}"
        return self.shown

    def drain(self) -> str:
        """All that was shown up to now."""
        seen = -1
        while seen < len(self.shown):
            seen = len(self.shown)
            self._read()
        return self.shown

    def end(self, *, timeout_s: float = 120.0) -> int:
        """The exit status, and the rest of what was shown."""
        deadline = time.monotonic() + timeout_s
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end: {self.shown!r}"
            self._read()
        while self._read():
            pass
        return self._process.returncode

    def _read(self) -> bool:
        """False when the other end is closed."""
        if not select.select([self._master], [], [], 0.1)[0]:
            return self._process.poll() is None
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux raises this when the other end is closed
            time.sleep(0.01)
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)
