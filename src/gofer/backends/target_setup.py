"""How a kind of target is set up for a person: what it asks, what it finds, and the options that follow.

A kind has a generator that yields steps and returns the options. `gofer.ops.settings.target_add` answers the
steps, so a kind neither prints nor reads a terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.errors import CheckFailed
from gofer.text import format_size

if TYPE_CHECKING:
    from gofer.transport.describe_machine import MachineDescription


class Fact(NamedTuple):
    """Something that was found, for the person. Its answer is None."""

    name: str
    value: str


class Question(NamedTuple):
    """A value that the target needs. Its answer is the text of the value, one of `choices` if there are any.

    `key` is the option of the target. `default` is taken where nobody can be asked; without a default, the
    value must be given. `is_host`: the value is the host of `--host`, or several with commas.
    """

    key: str
    text: str
    choices: tuple[str, ...] = ()
    default: str | None = None
    is_host: bool = False


class Visit(NamedTuple):
    """A machine to describe: a host for `ssh`, or None for this machine. Its answer is a
    MachineDescription.
    """

    host: str | None


class SetTarget(NamedTuple):
    """What is written: the options of the target, and new entries of `stores:` by name."""

    options: dict[str, Any]
    stores: Mapping[str, dict[str, Any]] = MappingProxyType({})


Step = Fact | Question | Visit
# Answers have the type that the step asks for, so the type that is sent is Any.
Setup = Generator[Step, Any, SetTarget]


def visit(host: str, where: str) -> Generator[Step, Any, MachineDescription]:
    """Visit a machine, this one without `host`, and say what it is; `where` is its name in messages."""
    machine: MachineDescription = yield Visit(host or None)
    yield Fact(where, f"answers as {machine.host}: {describe_hardware(machine)}")
    return machine


def check_python(machine: MachineDescription, what: str) -> dict[str, str]:
    """The option `python` of a target on this machine, empty where the default works. CheckFailed when the
    machine has no Python that gofer can use.
    """
    if machine.pythons:
        best = machine.pythons[0][0]
        return {} if best == "python3" else {"python": best}
    has = f"only Python {machine.old_python}" if machine.old_python else "no Python"
    raise CheckFailed(
        f"{what} has {has}, and gofer needs 3.8 or newer there",
        hint="install one there, or name its path: `gofer target add … python=/path/to/python3`",
    )


def describe_hardware(machine: MachineDescription) -> str:
    """`Python 3.11.2, 16 CPUs, 62.8 GiB, 4 x NVIDIA A100` in the words of messages."""
    parts = [f"Python {machine.pythons[0][1]}"] if machine.pythons else []
    parts.append(f"{machine.cpus} CPUs" if machine.cpus != 1 else "1 CPU")
    if machine.memory_mib:
        parts.append(format_size(machine.memory_mib << 20))
    counted = Counter(machine.gpus)
    parts += [f"{count} x {name}" for name, count in counted.items()] or ["no GPUs"]
    return ", ".join(parts)
