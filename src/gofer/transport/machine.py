"""A machine that can be asked to do something: this one, or one at the other end of a line.

What can be asked are the verbs of gofer.remote.verbs. A backend or a store that speaks to a machine works
the same wherever that machine is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gofer.errors import BackendError

if TYPE_CHECKING:
    from gofer.remote.answer import Answer


class RemoteFailure(BackendError):
    """The machine was asked and something went wrong there; `kind` is the error's own name."""

    def __init__(self, machine: str, verb: str, error: dict[str, Any]) -> None:
        super().__init__(f"{machine}: {error['words']}")
        self.verb = verb
        self.kind = str(error["kind"])
        self.words = str(error["words"])
        self.number: int | None = error.get("number")


class Machine(Protocol):
    """One machine. Calls block, one at a time; any thread may make them."""

    @property
    def name(self) -> str:
        """For messages: `this machine`, or what ssh was told."""

    def call(self, verb: str, data: bytes = b"", *, wait_s: float = 60.0, **arguments: Any) -> Answer:
        """Have a verb done. RemoteFailure with what went wrong there.

        Unreachable when the machine did not answer, and then it may have done it all the same: whoever asks
        for something that must not happen twice looks first whether it did.
        """

    def close(self) -> None:
        """Hang up. A later call connects again."""


class ProgramResult(NamedTuple):
    """How a program ended on a machine; `status` is None for one that took too long and was ended."""

    status: int | None
    output: str
    complaints: str


class LocalMachine:
    """This machine: the verbs are done in this process."""

    name = "this machine"

    def call(self, verb: str, data: bytes = b"", *, wait_s: float = 60.0, **arguments: Any) -> Answer:
        from gofer.remote.server import describe
        from gofer.remote.verbs import find

        try:
            return find(verb)(data, **arguments)
        except Exception as error:
            raise RemoteFailure(self.name, verb, describe(error)) from error

    def close(self) -> None:
        """Nothing is open."""


def run(
    machine: Machine,
    argv: list[str],
    *,
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
    timeout_s: float = 60.0,
) -> ProgramResult:
    """Run a program there to its end; whatever status it ends with is the caller's to judge.

    RemoteFailure (kind `FileNotFoundError`) when there is no such program.
    """
    done = machine.call(
        "machine.run", stdin, wait_s=timeout_s + 15.0, argv=argv, env=env, timeout_s=timeout_s
    )
    text = done.data.decode("utf-8", "replace")
    return ProgramResult(done.value["status"], text, str(done.value["complaints"]))
