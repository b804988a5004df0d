"""The processes that a command left running: name them, and end them.

The sentence that names them has only names of programs and scripts, never arguments: an argument may hold
a secret.
"""

from __future__ import annotations

import os
import re
import time
from typing import Callable, Collection, Iterable, List, Optional, Sequence

from gofer.core import processes
from gofer.core.outcome import Outcome
from gofer.core.sleep import pause
from gofer.core.states import State
from gofer.node import cgroups

# A process that ends within this time after the command was not doing lasting work, and is not reported.
GRACE_S = 0.2
_LOOK_S = 0.01
_MOST_NAMES = 3
_MOST_NOTED = 20
_LONGEST_NAME = 60
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish")
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|lua|php|Rscript|julia)[\d.]*|" + "|".join(_SHELLS))
_HELPER = re.compile(r"multiprocessing\.(resource|semaphore)_tracker|loky\.backend\.\w*tracker")
_MODULE = re.compile(r"[A-Za-z_][\w.]*")


def children_of_this_process(spared: Collection[int]) -> set[processes.ProcessIdentity]:
    """Every live descendant of this process, without the processes `spared` and their descendants."""
    table = processes.all_processes()
    found = processes.descendants(os.getpid(), table, spared=spared)
    return {processes.ProcessIdentity(pid, table[pid].start) for pid in found if table[pid].state not in "ZX"}


def left_running(known: Collection[processes.ProcessIdentity], *, spared: Collection[int]) -> list[str]:
    """The names, sorted, of descendants of this process that are still alive after GRACE_S. Blocks for that
    long at most.

    `known` are processes that are expected to stay, such as a service that set-up started. Their descendants
    are expected too.
    """
    if not has_children():
        return []
    deadline = time.monotonic() + GRACE_S
    excused = {*spared, *(one.pid for one in known if processes.is_alive(one))}
    found = children_of_this_process(excused)
    while found and time.monotonic() < deadline:
        pause(_LOOK_S)
        found = {one for one in found if processes.is_alive(one)}
    return sorted(name_process(one.pid) for one in found if not is_library_helper(_words(one.pid)))


def is_library_helper(argv: Sequence[str]) -> bool:
    """Whether a process only cleans up for Python's multiprocessing or joblib, and ends by itself."""
    return any(_HELPER.search(word) for word in argv)


def describe(names: Sequence[str], command: Sequence[str], *, succeeded: bool) -> Optional[str]:
    """The sentence that names the processes; after a success it also says how to wait for them. None without
    names.
    """
    if not names:
        return None
    count = len(names)
    verbs = "process was still running and was" if count == 1 else "processes were still running and were"
    words = f"{count} {verbs} ended: {list_in_words(names)}"
    return f"{words}; {_advice(command)}" if succeeded else words


def name_in(
    found: Outcome, names: Sequence[str], command: Sequence[str], note: Callable[..., None]
) -> Outcome:
    """Add the sentence about the processes to the outcome, and note an event."""
    words = describe(names, command, succeeded=found.state == State.SUCCEEDED)
    if words is not None:
        note("left-running", names=list(names[:_MOST_NOTED]), count=len(names))
    return found.with_detail(words)


def name_process(pid: int) -> str:
    """The script that an interpreter runs, else the program; a phrase when the process hides both."""
    try:
        folder = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return "a process that hides its name"
    return name_command(_words(pid), folder) or "a process without a name"


def _words(pid: int) -> List[str]:
    """The command line of a process; empty when it has ended or hides it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []


def name_command(argv: Sequence[str], folder: str) -> str:
    """Like `name_process`, for a command line and its working folder; empty for an empty command line."""
    program = printable_name(os.path.basename(argv[0])) if argv else ""
    return printable_name(_script(argv[1:], folder) or "") or program if _is_interpreter(program) else program


def _is_interpreter(program: str) -> bool:
    return _INTERPRETER.fullmatch(program.lstrip("-")) is not None


def _script(words: Sequence[str], folder: str) -> Optional[str]:
    """The first word that names a file, after options and their values. Other words are never returned, since
    they may hold anything.
    """
    is_value = False
    for at, word in enumerate(words):
        if word == "-m":
            module = words[at + 1] if at + 1 < len(words) else ""
            return module if _MODULE.fullmatch(module) else None
        if re.fullmatch(r"-[A-Za-z]*[ce]", word):
            return None  # a program text follows
        if not word.startswith(("-", "+")):
            if os.path.isfile(os.path.join(folder, word)):
                return os.path.basename(word)
            if not is_value:
                return None
        is_value = word.startswith(("-", "+"))
    return None


def printable_name(name: str) -> str:
    """A name that is safe in a record: one line, of limited length, without control characters."""
    shown = "".join(letter if letter.isprintable() and letter != "`" else "?" for letter in name)
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…"


def list_in_words(names: Iterable[str]) -> str:
    """The first names with their numbers, and how many more there are."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    shown_names = [f"`{name}`" if count == 1 else f"`{name}` ({count})" for name, count in counts.items()]
    more = len(shown_names) - _MOST_NAMES
    return ", ".join(shown_names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _advice(command: Sequence[str]) -> str:
    name = name_command(command, os.getcwd())
    program = os.path.basename(command[0]) if command else ""
    if name in _SHELLS:
        return "end the command with `wait`"
    if program in _SHELLS or name.endswith(".sh"):
        return f"end {name} with `wait`"
    return f"{name} must wait for the processes it starts"


def end(cgroup: Optional[str], *, spared: Collection[int]) -> bool:
    """Kill and reap all descendants of this process and all processes in its cgroup, except `spared`. Blocks.

    False when some are left: a process of another user, or a process that hangs in the kernel.
    """
    left: Collection[int] = ()
    if cgroup is not None:
        cgroups.kill_others(cgroup, spared=spared)
        left = set(cgroups.members(cgroup)) - {os.getpid(), *spared}
    if has_children():
        me = os.getpid()
        below = processes.kill_until_gone(lambda table: processes.descendants(me, table, spared=spared))
        left = [*left, *below]
        has_children()
    return not left


def has_children() -> bool:
    """Reap children that have ended; whether any child is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
