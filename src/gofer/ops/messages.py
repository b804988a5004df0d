"""What an operation tells the person while it works. Each interface shows the messages in its own way.

`str` of a message is the line that `gofer` prints on stderr. Texts may quote file names and text of others.
"""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """Something that the person should know, such as what was sent."""

    text: str

    def __str__(self) -> str:
        return self.text


class Warning(NamedTuple):
    """Something that the person probably did not want, or that could not be done. The operation continues."""

    text: str

    def __str__(self) -> str:
        return f"warning: {self.text}"


class Hint(NamedTuple):
    """What the person can do about the messages before it."""

    text: str

    def __str__(self) -> str:
        return f"hint: {self.text}"


class Progress(NamedTuple):
    """How much of something slow is done: `done` of `total` bytes."""

    text: str
    done: int
    total: int

    def __str__(self) -> str:
        return self.text


class LiveStatus(NamedTuple):
    """What a run waits for or does now. An interface may show it in place until the next one replaces it.

    `state` is a state or, for several runs, how many are done. `since` is the start of the time to show, in
    seconds since the epoch. `facts` are short, such as the runs ahead. Without `run`, nothing is to be shown.
    """

    run: str = ""
    state: str = ""
    since: float | None = None
    facts: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        return self.line("")

    def line(self, elapsed: str) -> str:
        """`k9qd4x queued 35s, 2 runs ahead: the reason`."""
        head = ", ".join([f"{self.state} {elapsed}".rstrip(), *self.facts])
        return f"{self.run} {head}" + (f": {self.reason}" if self.reason else "")


# Ends the status before it.
NO_STATUS = LiveStatus()

AnyMessage = Message | Warning | Hint | Progress | LiveStatus
