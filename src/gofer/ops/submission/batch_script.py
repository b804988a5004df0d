"""`gofer submit job.sbatch`: read a script with `#SBATCH` lines as `sbatch` does."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gofer.backends import registry
from gofer.config import batch_script, sbatch_options
from gofer.config.sbatch_options import SbatchOption
from gofer.core.command.programs import locate
from gofer.errors import CheckFailed, UsageError
from gofer.ops.messages import Message, Warning
from gofer.ops.submission import entry_point
from gofer.text import format_duration

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.ops.submission.submit import SubmitRequest

_MOST_BYTES = 1 << 20
_PROGRAMS = ("srun", "sbatch", "salloc", "scancel", "scontrol", "squeue", "sacct", "sinfo", "sstat")
# A word at the position of a command: at the start of a line, after `;`, `&`, `|`, `(`, or a word like
# `then`.
_COMMAND = re.compile(
    rf"(?:^|[;&|(`]|\b(?:then|do|else|exec|time|nohup|env|if|while|!))\s*({'|'.join(_PROGRAMS)}|module|ml)\b"
)
# The first line of a script that no shell runs.
_OTHER_PROGRAM = re.compile(r"#!(?!\s*\S*/(?:env\s+)?(?:ba|da|k|z)?sh\b)")
_VARIABLE = re.compile(r"\$\{?(SLURM_[A-Z0-9_]+)")


class _BatchScript(NamedTuple):
    """A batch script, the command that runs it, and its options, those of the command line last."""

    name: str
    command: tuple[str, ...]
    options: list[SbatchOption]


class Described(NamedTuple):
    """A request with the options of its batch script filled in. `sbatch` has the
    script's options for `sbatch`; None for a command that is no batch script.
    """

    request: SubmitRequest
    sbatch: tuple[str, ...] | None


def describe(session: Session, request: SubmitRequest, kind: str) -> Described:
    """The request with the options of the batch script in its command; the same request without such a
    script. Tells the person about options that are ignored.

    Flags of the person go before options of the script. The tasks of a job array become rows. `kind` is the
    kind of the target. CheckFailed or UsageError for a script that `sbatch` refuses too.
    """
    found = _find(session, request.command)
    if found is None:
        return Described(request, None)
    has_array = bool(request.each or request.array_file or request.columns)
    on_slurm = registry.find(kind).reads_sbatch
    read = batch_script.read_batch_job(
        found.options, request.flags, kind=kind, on_slurm=on_slurm, has_array=has_array
    )
    flags = read.flags
    if flags.name is None:
        flags = msgspec.structs.replace(flags, name=os.path.splitext(os.path.basename(found.name))[0])
    session.emit(Message(f"{found.name}: {_summary(read)}"))
    for note in read.notes:
        session.emit(Message(f"{found.name}: {note}"))
    columns = request.columns
    if read.tasks is not None:
        columns = {batch_script.TASK_ID: tuple(str(number) for number in read.tasks.ids)}
    filled = msgspec.structs.replace(request, command=found.command, flags=flags, columns=columns)
    return Described(filled, read.sbatch)


def _summary(read: batch_script.BatchJob) -> str:
    flags = read.flags
    nodes = flags.nodes if isinstance(flags.nodes, int) else 1
    facts = [_count(nodes, "node"), _count(flags.gpus or 0, "GPU")]
    if flags.time_limit_s is not None:
        facts.append(format_duration(flags.time_limit_s))
    if read.tasks is not None:
        facts.append(_count(len(read.tasks.ids), "task") + " of an array")
    return f"a batch script: {', '.join(facts)}; it starts once, on the first node"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _find(session: Session, command: tuple[str, ...]) -> _BatchScript | None:
    """The batch script in a command; None when there is none."""
    if not command:
        return None
    if os.path.basename(command[0]) == "sbatch":
        return _given_to_sbatch(session, command)
    text = _read(session, command[0])
    if text is not None and sbatch_options.has_directives(text):
        return _BatchScript(command[0], _started(text, command), sbatch_options.read_directives(text))
    script = entry_point.script_of(command)
    text = None if script is None else _read(session, script)
    if text is not None and sbatch_options.has_directives(text):
        words = f"{command[0]} ignores the `#SBATCH` lines of {script}; `gofer submit {script}` follows them"
        session.emit(Warning(words))
    return None


def _given_to_sbatch(session: Session, command: tuple[str, ...]) -> _BatchScript:
    """`gofer submit sbatch -N 2 job.sbatch` means `gofer submit job.sbatch`, with options that replace the
    script's.
    """
    options, words = sbatch_options.split_options(command[1:])
    wrapped = next((one for one in options if one.name == "wrap"), None)
    if wrapped is not None:
        kept = [one for one in options if one.name != "wrap"]
        return _BatchScript("--wrap", ("sh", "-c", wrapped.value or ""), kept)
    if not words:
        raise UsageError("`sbatch` needs a script", hint="`gofer submit job.sbatch` submits one")
    text = _read(session, words[0])
    if text is None:
        raise CheckFailed(f"`{words[0]}` is not a script in `{session.folder}`")
    own = sbatch_options.read_directives(text)
    return _BatchScript(words[0], _started(text, words), [*own, *options])


def _read(session: Session, name: str) -> str | None:
    """The text of a possible batch script; None without a file, or when the text does not begin with `#`."""
    text = _read_text(session, name)
    return text if text is not None and text.startswith("#") else None


def _read_text(session: Session, name: str) -> str | None:
    """The text of a script; None when it is not a text file."""
    try:
        with open(os.path.join(session.folder, name), "rb") as file:
            data = file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return None
    return None if b"\0" in data else data.decode("utf-8", "surrogateescape")


def _shell_text(session: Session, command: tuple[str, ...]) -> tuple[str, str]:
    """A name for messages, and the shell text of the command: a script, or the argument of `-c`."""
    if os.path.basename(command[0]) not in ("sh", "bash"):
        return command[0], (_read_text(session, command[0]) or "") if "/" in command[0] else ""
    for at, word in enumerate(command[1:-1], start=2):
        if not word.startswith("-") or word.startswith("--"):
            break
        if "c" in word:
            return "the command", command[at]
    script = entry_point.script_of(command) or ""
    return script, _read_text(session, script) or ""


def _started(text: str, words: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """The command that runs the script: the program of its `#!` line, or `sh` if it has none."""
    first, _, _ = text.partition("\n")
    if first.endswith("\r"):
        raise CheckFailed(
            f"`{words[0]}` has Windows line ends, which Slurm refuses",
            hint=f"`sed -i 's/\\r$//' {words[0]}` removes them",
        )
    interpreter = first[2:].strip().split(None, 1) if first.startswith("#!") else ["sh"]
    return (*(interpreter or ["sh"]), *words)


def name_missing(session: Session, job: Job, *, target: str, kind: str) -> None:
    """Warn about Slurm's programs and variables in the shell text of a command, if the target does not use
    Slurm.
    """
    script, text = _shell_text(session, job.command)
    if registry.find(kind).reads_sbatch or _OTHER_PROGRAM.match(text):
        return
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    programs = dict.fromkeys(name for line in lines for name in _COMMAND.findall(line))
    missing = [name for name in programs if not registry.runs_here(kind) or not _is_here(session, name)]
    if missing:
        words = ", ".join(f"`{name}`" for name in missing)
        session.emit(Warning(f"{script} uses {words}, which `{target}` (kind `{kind}`) may not have"))
    known = {*session.environ, *job.env, batch_script.TASK_ID}
    variables = dict.fromkeys(name for line in lines for name in _VARIABLE.findall(line) if name not in known)
    if variables:
        words = ", ".join(variables)
        session.emit(
            Warning(f"{script} reads {words}, which only Slurm sets, and `{target}` does not use Slurm")
        )


def _is_here(session: Session, name: str) -> bool:
    """Whether the submitting shell has the program. `module` is a shell function, not a program."""
    if f"BASH_FUNC_{name}%%" in session.environ or f"BASH_FUNC_{name}()" in session.environ:
        return True
    return locate(name, session.environ.get("PATH", os.defpath)) is not None
