"""A machine on which gofer calls verbs: this machine, or another machine over SSH.

The verbs are those of gofer.remote.verbs. Backends and stores use a Machine in the same way wherever it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gofer.errors import BackendError

if TYPE_CHECKING:
    from gofer.remote.answer import Answer


class RemoteFailure(BackendError):
    """A verb failed on the machine; `kind` is the class name of the exception there."""

    def __init__(self, machine: str, verb: str, error: dict[str, Any]) -> None:
        super().__init__(f"{machine}: {error['words']}")
        self.verb = verb
        self.kind = str(error["kind"])
        self.words = str(error["words"])
        self.number: int | None = error.get("number")


class Machine(Protocol):
    """One machine. Calls block and run one at a time; any thread may call."""

    @property
    def name(self) -> str:
        """The name for messages: `this machine`, or the host for ssh."""

    def call(self, verb: str, data: bytes = b"", *, wait_s: float = 60.0, **arguments: Any) -> Answer:
        """Call a verb. RemoteFailure when the verb fails there, Unreachable when the machine does not answer.

        After Unreachable, the verb may have been carried out. A caller whose request must not happen twice
        first checks whether it has happened.
        """

    def close(self) -> None:
        """Close the connection. A later call connects again."""


class ProgramResult(NamedTuple):
    """How a program ended on a machine; `status` is None for a program that took too long and was killed."""

    status: int | None
    output: str
    complaints: str


class LocalMachine:
    """This machine: verbs run in this process."""

    name = "this machine"

    def call(self, verb: str, data: bytes = b"", *, wait_s: float = 60.0, **arguments: Any) -> Answer:
        from gofer.remote.server import describe
        from gofer.remote.verbs import find

        try:
            return find(verb)(data, **arguments)
        except Exception as error:
            raise RemoteFailure(self.name, verb, describe(error)) from error

    def close(self) -> None:
        """Nothing to do."""


def run(
    machine: Machine,
    argv: list[str],
    *,
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
    timeout_s: float = 60.0,
) -> ProgramResult:
    """Run a program on the machine to its end. Any exit status is returned; the caller decides what it means.

    Raises RemoteFailure (kind `FileNotFoundError`) when there is no such program.
    """
    done = machine.call(
        "machine.run", stdin, wait_s=timeout_s + 15.0, argv=argv, env=env, timeout_s=timeout_s
    )
    text = done.data.decode("utf-8", "replace")
    return ProgramResult(done.value["status"], text, str(done.value["complaints"]))
