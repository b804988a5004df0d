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


AnyMessage = Message | Warning | Hint | Progress
