"""What the drill submits, and what each command, left alone, does: drawn at random, remembered by a tag."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random
from typing import NamedTuple

TAG = "drill"
_ENDS = ("0", "0", "0", "0", "3", "7", "255", "SIGKILL", "SIGTERM", "once:5", "once:SIGKILL")
_NAPS = ("0", "0", "0.05", "0.2", "0.5", "1")
_MODES = ("", "", "", "", "stray", "stubborn")


class Spec(NamedTuple):
    """One submission. `rows` > 0 makes it an array whose rows differ in nap and end."""

    number: int
    nap: str = "0"
    end: str = "0"
    mode: str = ""
    rows: int = 0
    gpus: int = 0
    retries: int = 0
    code: bool = False
    setup: bool = False

    @property
    def tag(self) -> str:
        return str(self.number)

    @property
    def size(self) -> int:
        """How many runs it becomes."""
        return max(self.rows, 1)

    def words(self, script: Path) -> list[str]:
        """The words of the command line after `gofer`."""
        options = ["submit", "--quiet", "--tag", f"{TAG}={self.tag}", "--grace", "0.3s"]
        options += [] if self.code else ["--no-code"]
        options += ["-n", str(self.gpus)] if self.gpus else []
        options += ["--retries", str(self.retries)] if self.retries else []
        options += ["--setup", "sleep 0.15"] if self.setup else []
        if not self.rows:
            return [*options, *self.command(script, self.nap, self.end)]
        ends = ",".join(row_end(index) for index in range(self.rows))
        return [*options, "--each", f"end={ends}", *self.command(script, self.nap, "{end}")]

    def command(self, script: Path, nap: str, end: str) -> list[str]:
        return ["sh", str(script), nap, end, *([self.mode] if self.mode else [])]


def row_end(index: int) -> str:
    """Rows of an array end in turn well, with a code that names the row, and well again.

    Values of `--each` must differ, so the ones that end well say so with as many zeros as needed.
    """
    return str(100 + index) if index % 5 == 2 else "0" * (index + 1)


def draw(rng: Random, number: int, *, with_code: bool = False) -> Spec:
    """A submission of the mix: mostly short and single, some failing, wide, in many rows, or with strays."""
    if rng.random() < 0.12:
        rows = rng.choice((5, 8, 12, 50))
        return Spec(number, nap=rng.choice(("0", "0", "0.05")), rows=rows, retries=rng.choice((0, 0, 1)))
    return Spec(
        number,
        nap=rng.choice(_NAPS),
        end=rng.choice(_ENDS),
        mode=rng.choice(_MODES),
        gpus=rng.choice((0, 0, 0, 0, 2, 4)),
        retries=rng.choice((0, 0, 1, 2)),
        code=with_code and rng.random() < 0.3,
        setup=rng.random() < 0.2,
    )


class Ending(NamedTuple):
    """How an attempt that nothing disturbed must be recorded."""

    state: str
    reason: str | None
    exit_code: int


def undisturbed(end: str, attempt: int) -> Ending:
    """The expected outcome of a command with this `end`, in its n-th attempt."""
    if end.startswith("once:"):
        end = end.removeprefix("once:") if attempt == 1 else "0"
    if end.startswith("SIG"):
        return Ending("failed", "signal", 128 + signal.Signals[end])
    code = int(end)
    return Ending("failed", "exit-code", code) if code else Ending("succeeded", None, 0)
