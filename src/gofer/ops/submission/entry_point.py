"""Check before submission that the program or script of the command exists."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gofer.core.command.programs import locate
from gofer.core.command.rows import placeholders
from gofer.errors import CheckFailed
from gofer.node.code.project_environments import is_environment
from gofer.ops.submission.code import workdir
from gofer.ops.submission.left_out import advise_include
from gofer.text import did_you_mean, quote_command, quote_word

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.snapshot.summary import Snapshot

# A text with one of these is a line for a shell.
_SHELL_SIGNS = "|&;<>$`*?\n"
# Those of them that no program has in its name.
_OPERATORS = "|&;<>`\n"
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
# Commands that only a shell has. Some of them are also programs on some machines, and are then started.
_BUILTIN_WORDS = """
    . alias bg bind builtin cd command declare dirs disown enable eval exec exit export fg getopts hash help
    history jobs let local logout popd pushd read readonly return set shift shopt source suspend times trap
    type typeset ulimit umask unalias unset wait
"""
_BUILTINS = frozenset(_BUILTIN_WORDS.split())
# POSIX lets a system have the other builtins as programs too.
_NEVER_PROGRAMS = (
    *(".", "builtin", "declare", "eval", "exec", "exit", "export", "let", "local", "popd", "pushd", "set"),
    *("shopt", "source"),
)
# A mistyped program is compared with these and with the programs of the active environment: a name that is
# near in all of /usr/bin is rarely the one that was meant.
_COMMON = (
    *("python", "python3", "torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "jupyter"),
    *("bash", "sh", "uv", "pip", "pip3", "conda", "make", "git", "rsync", "sleep", "echo", "nvidia-smi"),
    *("pytest", "node", "npm", "java", "cargo", "docker", "tensorboard", "hostname"),
)


def check(session: Session, job: Job, *, folder: Path | None, local: bool) -> Job:
    """The job with its working folder and, for a plain `script.py`, its interpreter; CheckFailed when it does
    not exist.

    The program itself can be checked only on a target on this machine (`local`).
    """
    # Code of a store has no folder where the person is: the command starts at its top.
    here = folder if folder is not None and job.code is not None else session.folder
    search = session.environ.get("PATH", os.defpath)
    job = msgspec.structs.replace(
        job,
        workdir="." if folder is None else workdir(session, folder),
        command=with_interpreter(job.command, here, search),
    )
    program, base = job.command[0], here if folder is not None else None
    if placeholders([program]) or job.function is not None:
        return job
    if local:
        _check_program(job.command, base, here, session.environ)
    else:
        _check_first_word(job.command, here)
    script = script_of(job.command)
    if script is not None and not placeholders([script]):
        _check_script(script, base, job.code)
    return job


def check_included(job: Job, folder: Path, taken: Snapshot, linked: Sequence[str] = ()) -> None:
    """CheckFailed when the current folder, the program or the script is in the code folder, but an ignore
    rule left it out of the snapshot.

    Files in a mapped folder are excepted, and so are the environments `linked`, which the working copy has as
    links.
    """
    if not taken.has(job.workdir):
        raise CheckFailed(
            f"the folder `{job.workdir}` is in `{folder}` but not in the code that would be sent",
            hint="an ignore rule leaves it out; `gofer submit --code-folder .` sends this folder alone",
        )
    program = job.command[0] if "/" in job.command[0] else None
    for word in (program, script_of(job.command) if job.function is None else None):
        if word is None or os.path.isabs(word) or placeholders([word]):
            continue
        path = os.path.normpath(os.path.join(job.workdir, word))
        if path.partition("/")[0] in job.folders or any(path.startswith(f"{one}/") for one in linked):
            continue
        if not path.startswith("..") and os.path.exists(folder / path) and not taken.has(path):
            raise CheckFailed(
                f"`{word}` is in `{folder}` but not in the code that would be sent",
                hint=_hint(folder, path, job.workdir),
            )


def _hint(folder: Path, path: str, workdir: str) -> str:
    parents = [path.rsplit("/", number)[0] for number in range(1, path.count("/") + 1)]
    if any(is_environment(os.path.join(folder, one)) for one in parents):
        return (
            "a Python environment is of no use on another machine; `--packages auto` builds one there from a "
            "requirements.txt"
        )
    return f"an ignore rule leaves it out; {advise_include(path, workdir)}"


def with_interpreter(command: tuple[str, ...], here: Path, search: str) -> tuple[str, ...]:
    """The command, with `python` in front if its first word is a Python script and not a program.

    A word that ends in `.py` is a program if it is a path with a slash to an executable file, or the name of
    a program on the path `search` and not of a file in the folder `here`. Every other such word is a script,
    even an executable file that is named without a slash, or a file that does not exist.
    """
    word = command[0]
    path = here / word
    if not word.endswith(".py") or (" " in word and not path.exists()):
        return command
    if "/" in word:
        is_program = path.is_file() and os.access(path, os.X_OK)
    else:
        is_program = not path.is_file() and locate(word, search) is not None
    return command if is_program else ("python", *command)


def _check_program(
    command: tuple[str, ...], here: Path | None, typed_in: Path, environ: Mapping[str, str]
) -> None:
    """CheckFailed when the first word is not a program. `typed_in` is the folder of the person."""
    program, search = command[0], environ.get("PATH", os.defpath)
    if "/" in program:
        path = _locate("program", program, here)
        if not os.path.exists(path):  # False also for a name that is too long for a file system
            hint = _other_form(command, typed_in) or f"looked in `{here or '/'}`"
            raise CheckFailed(f"the program `{program}` does not exist", hint=hint)
        if not os.access(path, os.X_OK):
            raise CheckFailed(f"the program `{program}` cannot be executed", hint=f"`chmod +x {program}`")
    elif locate(program, search) is None:
        what = f"there is no program `{program}`"
        if program in _BUILTINS:
            what = f"`{program}` is a shell builtin and not a program"
        raise CheckFailed(
            what,
            hint=_other_form(command, typed_in)
            or _conda(program, environ)
            or did_you_mean(program, likely_programs(search, environ))
            or "is its environment active? A file of this folder is written `./NAME`",
        )


def _check_first_word(command: tuple[str, ...], typed_in: Path) -> None:
    """CheckFailed for a first word that no machine has as a program, since it is meant for a shell."""
    program = command[0]
    is_line = any(sign in program for sign in _OPERATORS) and not os.path.exists(typed_in / program)
    if _ASSIGNMENT.fullmatch(program) or is_line or program in _NEVER_PROGRAMS:
        what = f"there is no program `{program}`"
        if program in _NEVER_PROGRAMS:
            what = f"`{program}` is a shell builtin and not a program"
        raise CheckFailed(what, hint=_other_form(command, typed_in))


def _other_form(command: tuple[str, ...], here: Path) -> str | None:
    """How the command is written for gofer, if its first word is for a shell or is a file of the folder
    `here`; else None.
    """
    program, more = command[0], command[1:]
    if program == "help" and not more:
        return "`gofer submit --help` shows the options of submit"
    if _ASSIGNMENT.fullmatch(program):
        command = command if more else _split(program)
        return f"no shell reads the command; a variable is an option: `{_with_variables(command)}`"
    if program in _BUILTINS:
        return _in_a_shell(command)
    if any(mark.isspace() for mark in program):
        return f"the first word is the program; {_unquoted(program) if not more else _shell_line(program)}"
    if os.path.isfile(here / program):  # False also for a name that is too long
        is_script = program.endswith((".sh", ".bash")) and not os.access(here / program, os.X_OK)
        words = ["bash", *command] if is_script else [f"./{program}", *more]
        line = f"a file of this folder is written `{quote_word('./' + program)}`"
        return f"{line}: `gofer submit {quote_command(words)}`" if is_script else line
    return None


def _split(text: str) -> tuple[str, ...]:
    """The words of a line that was typed as one word, such as `A=1 python x.py`."""
    words = () if any(sign in text for sign in _SHELL_SIGNS) else tuple(text.split())
    return words if len(words) > 1 and "=" not in words[-1] else (text,)


def _with_variables(command: tuple[str, ...]) -> str:
    """The line with the assignments before the command as options."""
    count = next((at for at, word in enumerate(command) if not _ASSIGNMENT.fullmatch(word)), len(command))
    options = " ".join(f"-e {quote_word(word)}" for word in command[:count])
    return f"gofer submit {options} {quote_command(command[count:]) or 'COMMAND'}"


def _in_a_shell(command: tuple[str, ...]) -> str:
    """The line that a shell runs, for a command that begins with a builtin of the shell."""
    assigned = [word for word in command[1:] if _ASSIGNMENT.fullmatch(word)]
    if command[0] in ("export", "declare", "set") and assigned:
        options = " ".join(f"-e {quote_word(word)}" for word in assigned)
        return f"a variable is an option: `gofer submit {options} COMMAND`"
    line = quote_command(command)
    if not any(sign in line for sign in ("&&", ";")):
        line += " && COMMAND"
    return _shell_line(line)


def _unquoted(text: str) -> str:
    """The line for a command that was typed as one word, with or without signs of a shell."""
    if any(sign in text for sign in _SHELL_SIGNS):
        return _shell_line(text)
    return f"without the quotes: `gofer submit {' '.join(text.split())}`"


def _shell_line(text: str) -> str:
    return f"for a shell line write `gofer submit bash -c {quote_word(text)}`"


def _conda(program: str, environ: Mapping[str, str]) -> str | None:
    """A hint for conda and its kin, which a shell often has only as a function."""
    if program not in ("conda", "mamba", "micromamba"):
        return None
    path = environ.get("CONDA_EXE" if program == "conda" else "MAMBA_EXE")
    if path:
        return f"`{program}` is a function of your shell; its program is `{quote_word(path)}`"
    return "activate the environment, then submit the command itself: the run gets your environment"


def likely_programs(search: str, environ: Mapping[str, str], *, is_here: bool = True) -> list[str]:
    """The programs that a person may have mistyped: common ones, and those of the active environment.

    Which of the common ones another machine has is not known.
    """
    found = [name for name in _COMMON if not is_here or locate(name, search) is not None]
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = environ.get(variable)
        if folder:
            with suppress(OSError):
                found += os.listdir(os.path.join(folder, "bin"))
    return found


def script_of(command: tuple[str, ...]) -> str | None:
    """The file that `python file.py` or `bash file.sh` would read, if that is obvious."""
    name = os.path.basename(command[0])
    is_python = _PYTHON.fullmatch(name) is not None
    if not (is_python or name in ("sh", "bash")):
        return None
    for word in command[1:]:
        if not word.startswith("-"):
            return word
        # Short options may be combined (`-lc`). After these options follows no file, or a value of the
        # option.
        if word in ("-", "--") or word[:2] == "--" or set(word) & set("cmWX" if is_python else "coOs"):
            return None
    return None


def _locate(what: str, name: str, here: Path | None) -> Path:
    """The path of a file in the command; CheckFailed if only the code could contain it and no code is
    sent.
    """
    if here is None and not os.path.isabs(name):
        raise CheckFailed(
            f"the {what} `{name}` would be missing: without code the command runs in an empty folder",
            hint="leave out `--no-code`, or write the absolute path of the file",
        )
    return Path(name) if here is None else here / name


def _check_script(script: str, here: Path | None, stored: str | None) -> None:
    path = _locate("script", script, here)
    if not path.exists():
        around = path.parent if path.parent.is_dir() else path.parent.parent
        known = [entry.name for entry in os.scandir(around)] if around.is_dir() else []
        raise CheckFailed(
            f"the script `{script}` is not in `{stored or here or '.'}`", hint=did_you_mean(path.name, known)
        )
