"""The options of `sbatch`, from the `#SBATCH` lines of a batch script or from a command line. Pure.

Accepts every spelling that `sbatch` accepts: `-N 2`, `-N2`, `--nodes=2`, `--nodes 2`, and the beginning of a
long name where it is unambiguous.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from gofer.core.json_text import parse_count
from gofer.errors import UsageError

_SHORT = {
    **{"A": "account", "a": "array", "b": "begin", "B": "extra-node-info", "c": "cpus-per-task"},
    **{"C": "constraint", "d": "dependency", "D": "chdir", "e": "error", "F": "nodefile", "G": "gpus"},
    **{"H": "hold", "i": "input", "J": "job-name", "k": "no-kill", "L": "licenses", "m": "distribution"},
    **{"M": "clusters", "N": "nodes", "n": "ntasks", "O": "overcommit", "o": "output", "p": "partition"},
    **{"q": "qos", "Q": "quiet", "s": "oversubscribe", "S": "core-spec", "t": "time", "v": "verbose"},
    **{"w": "nodelist", "W": "wait", "x": "exclude"},
}
# Options without a value. Of the second line, a value may follow `=`, and never stands in the next word.
_WITHOUT_VALUE = {
    *("contiguous", "hold", "ignore-pbs", "no-requeue", "overcommit", "parsable", "quiet", "reboot"),
    *("requeue", "spread-job", "test-only", "use-min-nodes", "verbose", "wait"),
    *("exclusive", "get-user-env", "nice", "no-kill", "oversubscribe", "propagate"),
}
_LONG = {
    *_SHORT.values(),
    *_WITHOUT_VALUE,
    *("acctg-freq", "batch", "bb", "bbf", "cluster-constraint", "comment", "container", "container-id"),
    *("cores-per-socket", "cpu-freq", "cpus-per-gpu", "deadline", "delay-boot", "export", "export-file"),
    *("gid", "gpu-bind", "gpu-freq", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres"),
    *("gres-flags", "hint", "kill-on-invalid-dep", "mail-type", "mail-user", "mcs-label", "mem"),
    *("mem-bind", "mem-per-cpu", "mem-per-gpu", "mincpus", "network", "ntasks-per-core"),
    *("ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode", "power", "prefer"),
    *("priority", "profile", "reservation", "resv-ports", "segment", "signal", "sockets-per-node"),
    *("switches", "thread-spec", "threads-per-core", "time-min", "tmp", "tres-bind", "tres-per-task"),
    *("uid", "wckey", "wrap"),
}
_ALIASES = {"tasks-per-node": "ntasks-per-node", "cpus-per-tasks": "cpus-per-task", "workdir": "chdir"}


class SbatchOption(NamedTuple):
    """One option by its long name. `line` is its line in the script, 0 on a command line."""

    name: str
    value: str | None
    line: int = 0

    def __str__(self) -> str:
        return f"--{self.name}" if self.value is None else f"--{self.name}={self.value}"


def has_directives(text: str) -> bool:
    """Whether a file begins as a batch script does: comments only, and `#SBATCH` among them."""
    return any(True for _ in _directive_lines(text))


def read_directives(text: str) -> list[SbatchOption]:
    """The options in the `#SBATCH` lines; UsageError for a line that `sbatch` could not read."""
    found: list[SbatchOption] = []
    for number, rest in _directive_lines(text):
        try:
            words = shlex.split(rest, comments=True)
        except ValueError as error:
            raise UsageError(f"line {number} `#SBATCH{rest}` cannot be read: {error}") from None
        if words and words[0] in ("hetjob", "packjob"):
            raise UsageError(
                f"line {number} `#SBATCH {words[0]}` begins another part of a heterogeneous job",
                hint="submit each part as a separate script",
            )
        options, left = split_options(words, line=number)
        if left:
            raise UsageError(f"line {number} has a word that is not an option of `sbatch`: `{left[0]}`")
        found += options
    return found


def _directive_lines(text: str) -> list[tuple[int, str]]:
    """The text after `#SBATCH`, with line numbers, up to the first line that is no comment."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if re.match(r"#SBATCH\s", line):
            found.append((number, line[len("#SBATCH") :]))
    return found


def split_options(words: Sequence[str], *, line: int = 0) -> tuple[list[SbatchOption], list[str]]:
    """The options at the beginning, and the words after them; UsageError for an option without its value."""
    found: list[SbatchOption] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = _full_name(name)
            given: str | None = value if equals else None
        else:
            name, given = _SHORT.get(word[1], word[1]), word[2:] or None
            if name in _WITHOUT_VALUE and given is not None:
                left.insert(0, f"-{given}")
                given = None
        if given is None and name not in _WITHOUT_VALUE and _takes_next(name, left):
            given = left.pop(0)
        if given is None and name in _LONG and name not in _WITHOUT_VALUE:
            raise UsageError(f"{_at(line)}`{word}` has no value")
        found.append(SbatchOption(name, given, line))
    return found, left


def _at(line: int) -> str:
    return f"line {line}: " if line else ""


def _full_name(name: str) -> str:
    """The full name of an option that may be abbreviated. An unknown name, such as a plugin's, is
    unchanged.
    """
    name = _ALIASES.get(name, name)
    if name in _LONG:
        return name
    near = [known for known in _LONG if known.startswith(name)]
    return near[0] if len(near) == 1 else name


def _takes_next(name: str, left: Sequence[str]) -> bool:
    """Whether the next word is the value of an unknown option: when the word does not look like an option."""
    return bool(left) and (name in _LONG or not left[0].startswith("-"))


def parse_time_s(text: str) -> float | None:
    """Seconds of `--time` in each of Slurm's formats; None for no limit; UsageError otherwise.

    `90` and `90:30` are minutes, `1:30:00` hours, `2-12`, `2-12:30` and `2-12:30:00` days and hours.
    """
    if text.strip().lower() in ("unlimited", "infinite", "-1", "0"):
        return None
    found = re.fullmatch(r"(?a)(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", text.strip())
    if found is None:
        raise UsageError(f"`--time={text}` is not a time that Slurm knows", hint="write it like `1-12:30:00`")
    days, first, second, third = (int(part or 0) for part in found.groups())
    if found[1] is None and found[4] is None:
        return float(first * 60 + second)
    return float(((days * 24 + first) * 60 + second) * 60 + third)


class ArrayTasks(NamedTuple):
    """The numbers of an array's tasks, and how many may run at the same time (None: all)."""

    ids: tuple[int, ...]
    at_once: int | None


_MOST_TASKS = 4_000_001


def parse_array(text: str) -> ArrayTasks:
    """`0-15`, `1,3,5-7`, `0-20:4`, each also with `%2` for two at a time; UsageError otherwise."""
    listed, percent, limit = text.partition("%")
    at_once = parse_count(limit.strip()) if percent else 0
    ids: list[int] = []
    for part in listed.split(","):
        found = re.fullmatch(r"(?a)\s*(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?\s*", part)
        if found is None or at_once is None:
            raise UsageError(
                f"`--array={text}` is not an array that Slurm knows", hint="write it like `1-10%2`"
            )
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1 or last >= _MOST_TASKS:
            raise UsageError(f"`--array={text}` has no tasks between {first} and {last}")
        ids += range(first, last + 1, step)
        if len(ids) > _MOST_TASKS:
            raise UsageError(f"`--array={text}` names more than {_MOST_TASKS:,} tasks")
    return ArrayTasks(tuple(dict.fromkeys(ids)), at_once or None)


def count_gpus(text: str) -> int:
    """GPUs in `--gpus` or `--gpus-per-…`: `2`, `a100:2`, or several of these."""
    return sum(_last_number(part.split(":")) for part in text.split(","))


def count_gres_gpus(text: str) -> int:
    """GPUs in `--gres`: `gpu`, `gpu:2`, `gpu:a100:2`, or several; other generic resources count nothing."""
    total = 0
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.strip().removeprefix("gres/").split(":")
        total += _last_number(words) if words[0] == "gpu" else 0
    return total


def _last_number(words: Sequence[str]) -> int:
    number = parse_count(words[-1].strip())
    return 1 if number is None else number
