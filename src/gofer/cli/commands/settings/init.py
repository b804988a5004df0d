"""`gofer init`: a gofer.yaml to fill in, and this folder's code in the store."""

from __future__ import annotations

from typing import Any

from gofer.cli.options import Command, quiet_option, target_option
from gofer.cli.output.screen import confirmation_prompt, print_message, print_nothing
from gofer.ops.messages import Message
from gofer.ops.session import Session
from gofer.ops.settings.init import init


def run(**given: Any) -> int:
    """Report on stderr what was done. Idempotent."""
    with Session(
        target=given["target"],
        emit=print_nothing if given["quiet"] else print_message,
        ask=confirmation_prompt(),
    ) as session:
        for line in str(init(session)).split("\n"):
            session.emit(Message(line))
    return 0


command = Command(
    "init",
    run,
    [
        target_option("Send the code to this target's store", default_text="the project's default target"),
        quiet_option(),
    ],
    help="Make this folder ready: write a gofer.yaml if there is none, and send the code so that the next "
    "submit is quick.",
)
