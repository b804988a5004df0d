"""Remember what this command has already done, in case its output cannot be written.

A script that repeats failed commands must not do things twice. So when stdout is closed or full after a run
was sent, stderr says that it was sent, and the exit status is not a failure.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from gofer.cli.output.screen import print_message


class CompletionMessage(NamedTuple):
    """`words` say what was done. `status` is the exit status if stdout cannot be written afterwards."""

    words: str
    status: int


_done: list[CompletionMessage] = []


def record_done(words: str, *, status: int = 0) -> None:
    """Record that the command has had its effect. A later note replaces this one."""
    _done[:] = [CompletionMessage(words, status)]


def last_done() -> CompletionMessage | None:
    """The last note of this process; None while nothing was done."""
    return _done[0] if _done else None


def write_result(text: str) -> None:
    """Write to stdout at once. When that fails, say what was done on stderr; the command continues."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        give_up_stdout(error)


def give_up_stdout(error: OSError) -> None:
    """Write nothing more to stdout, and say on stderr what was done."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    found = last_done()
    if found is not None:
        print_message(
            f"warning: stdout cannot be written ({(error.strerror or str(error)).lower()}); {found.words}"
        )
