"""A Slurm batch script as a job of gofer: what its options ask for, on Slurm and on every other kind. Pure.

Nodes, GPUs, CPUs, time limit, array, name and variables become fields of the job, unless the command line
sets them. All other options go to `sbatch` unchanged. Notes name the options that gofer cannot follow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from gofer.config.jobs import JobFlags
from gofer.config.sbatch_options import (
    ArrayTasks,
    SbatchOption,
    count_gpus,
    count_gres_gpus,
    parse_array,
    parse_time_s,
)
from gofer.core.json_text import parse_count
from gofer.errors import UsageError

TASK_ID = "SLURM_ARRAY_TASK_ID"
GPU_OPTIONS = ("gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
# The job's own: gofer writes them for each kind of target.
_MAPPED = ("nodes", "job-name", "export")
_SIGNALS_TO_STEPS = ("USR1", "USR2", "HUP")
# Never given to `sbatch`, and why.
_NOT_FOLLOWED = {
    "output": "gofer keeps the log, `gofer logs RUN` shows it",
    "error": "stdout and stderr are one log, `gofer logs RUN` shows it",
    "input": "a run reads no input",
    "open-mode": "each attempt has its own log",
    "chdir": "the script starts in the copy of this folder",
    "wait": "`gofer submit --wait` waits",
    "parsable": "stdout carries the run's id",
    "quiet": "`gofer submit -Q` is quiet",
    "verbose": "`gofer --debug` says more",
    "test-only": "`gofer submit --dry-run` shows what would be sent",
    "clusters": "a target is one cluster",
    "container": "`container:` of the target names an image",
    "container-image": "`container:` of the target names an image",
    "container-mounts": "`container_mounts:` of the target names folders",
    "get-user-env": "a run has the environment of the login",
    "export-file": "`-e NAME=VALUE` sets variables",
    "ignore-pbs": "`#PBS` lines are not read",
}


class BatchJob(NamedTuple):
    """The job of a batch script. `sbatch` are its options for Slurm; `notes` name the options that are
    ignored.
    """

    flags: JobFlags
    tasks: ArrayTasks | None
    sbatch: tuple[str, ...]
    notes: tuple[str, ...]


def read_batch_job(
    options: Sequence[SbatchOption], flags: JobFlags, *, kind: str, on_slurm: bool, has_array: bool
) -> BatchJob:
    """Flags win over options, and the last of two options of one name over the first. UsageError for a value
    that Slurm would refuse too.

    `kind` is the kind of the target, and `on_slurm` says that it uses Slurm. `has_array` says that the
    command line asks for an array of its own.
    """
    return _Reader(options, flags, kind=kind, on_slurm=on_slurm, has_array=has_array).read()


class _Reader:
    def __init__(
        self, options: Sequence[SbatchOption], flags: JobFlags, *, kind: str, on_slurm: bool, has_array: bool
    ) -> None:
        self._options = {option.name: option for option in options}
        self._flags = flags
        self._kind = kind
        self._on_slurm = on_slurm
        self._has_array = has_array
        self._notes: list[str] = []

    def read(self) -> BatchJob:
        if isinstance(self._flags.nodes, dict):
            hint = "give one number with `--nodes`, or submit a command instead of a batch script"
            raise UsageError("the number of nodes of a batch script cannot change while it runs", hint=hint)
        nodes = self._flags.nodes or self._nodes()
        tasks = self._array()
        flags = msgspec.structs.replace(
            self._flags,
            name=self._flags.name or self._text("job-name"),
            nodes=nodes,
            gpus=self._gpus(nodes or 1) if self._flags.gpus is None else self._flags.gpus,
            cpus=self._flags.cpus or self._cpus(nodes or 1),
            time_limit_s=self._flags.time_limit_s or self._time_s(),
            multi_process=False if self._flags.procs is None else self._flags.multi_process,
            env={**self._exported(), **self._array_facts(tasks), **self._flags.env},
        )
        self._check_signal()
        return BatchJob(flags, tasks, tuple(self._passed_on()), tuple(self._notes))

    # -- values

    def _text(self, name: str) -> str | None:
        option = self._options.get(name)
        return None if option is None else option.value

    def _number(self, name: str) -> int | None:
        text = self._text(name)
        if text is None:
            return None
        number = parse_count(text)
        if not number:
            raise UsageError(f"`--{name}={text}` is not a number above 0")
        return number

    def _note(self, option: SbatchOption, why: str) -> None:
        where = f"line {option.line}: " if option.line else ""
        self._notes.append(f"{where}`{option}` is not followed: {why}")

    # -- what becomes part of the job

    def _nodes(self) -> int | None:
        """The nodes that the script names, or as many as its tasks need; None when the GPUs decide."""
        text, tasks, per_node = self._text("nodes"), self._number("ntasks"), self._number("ntasks-per-node")
        if text is not None:
            least, dash, most = text.partition("-")
            number = parse_count(least)
            if not number or (dash and parse_count(most) is None):
                raise UsageError(f"`--nodes={text}` is not a number of nodes")
            if dash and most != least:
                self._note(self._options["nodes"], f"a run has a fixed number of nodes, here {least}")
            return number
        if tasks is not None and per_node is not None:
            return math.ceil(tasks / per_node)
        if tasks is not None and tasks > 1 and not any(name in self._options for name in GPU_OPTIONS):
            self._notes.append(f"`--ntasks={tasks}` is taken as {tasks} tasks on one node; `-N` names more")
            return 1
        return None

    def _tasks_per_node(self, nodes: int) -> int:
        return self._number("ntasks-per-node") or math.ceil((self._number("ntasks") or 1) / nodes)

    def _cpus(self, nodes: int) -> int | None:
        """The CPUs of one node, since the script is one process."""
        if not any(name in self._options for name in ("ntasks", "ntasks-per-node", "cpus-per-task")):
            return None
        return self._tasks_per_node(nodes) * (self._number("cpus-per-task") or 1)

    def _gpus(self, nodes: int) -> int | None:
        """The GPUs of the whole run; None when the script asks for none."""
        gpus, on_node = self._text("gpus"), self._text("gpus-per-node")
        for_task, gres = self._text("gpus-per-task"), self._text("gres")
        if gpus is not None:
            return count_gpus(gpus)
        if on_node is not None:
            return count_gpus(on_node) * nodes
        if for_task is not None:
            tasks = self._number("ntasks") or self._tasks_per_node(nodes) * nodes
            return count_gpus(for_task) * tasks
        return count_gres_gpus(gres) * nodes if gres is not None else None

    def _time_s(self) -> float | None:
        text = self._text("time")
        return None if text is None else parse_time_s(text)

    def _array(self) -> ArrayTasks | None:
        option = self._options.get("array")
        if option is None or option.value is None:
            return None
        if self._has_array:
            self._note(option, "the command line asks for an array too")
            return None
        tasks = parse_array(option.value)
        if tasks.at_once is not None and not self._on_slurm:
            self._note(SbatchOption("array", f"…%{tasks.at_once}", option.line), self._elsewhere)
        return tasks

    def _array_facts(self, tasks: ArrayTasks | None) -> dict[str, str]:
        """Slurm's variables of the whole array; the variable of each task is a column of the array."""
        if tasks is None:
            return {}
        ids = sorted(tasks.ids)
        steps = {later - earlier for earlier, later in itertools.pairwise(ids)}
        facts = {"COUNT": len(ids), "MIN": ids[0], "MAX": ids[-1], "STEP": min(steps, default=1)}
        return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in facts.items()}

    def _exported(self) -> dict[str, str]:
        option = self._options.get("export")
        if option is None or option.value is None:
            return {}
        words = [word for word in option.value.split(",") if word]
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        if "ALL" not in words and len(words) > len(pairs):
            self._note(option, "a run has all variables that it would have without it")
        return pairs

    # -- what Slurm alone knows

    @property
    def _elsewhere(self) -> str:
        return f"a target of the kind `{self._kind}` has no such thing"

    def _passed_on(self) -> list[str]:
        """The options for `sbatch`. A note names each option that is neither passed on nor part of the
        job.
        """
        found = []
        for option in self._options.values():
            if option.name in _NOT_FOLLOWED:
                self._note(option, _NOT_FOLLOWED[option.name])
            elif option.name not in _MAPPED and self._is_passed_on(option):
                if not self._on_slurm and not self._is_followed(option):
                    self._note(option, self._elsewhere)
                found.append(str(option))
        if self._flags.cpus is not None:
            found.append(f"--cpus-per-task={self._flags.cpus}")
        return found

    def _is_passed_on(self, option: SbatchOption) -> bool:
        """Whether the option goes to `sbatch`: not when a flag overrides it."""
        said: dict[str, Callable[[], bool]] = {
            "cpus-per-task": lambda: self._flags.cpus is not None,
            "time": lambda: self._flags.time_limit_s is not None,
            "array": lambda: self._has_array,
            **dict.fromkeys(MEMORY_OPTIONS, lambda: self._flags.memory is not None),
        }
        gpus = self._flags.gpus, self._flags.gpu_type
        if option.name in GPU_OPTIONS and any(flag is not None for flag in gpus):
            return False
        return not (option.name in said and said[option.name]())

    def _is_followed(self, option: SbatchOption) -> bool:
        """Whether kinds of target other than Slurm follow the option."""
        if option.name == "gres":
            parts = (option.value or "").split(",")
            return all(part.removeprefix("gres/").startswith("gpu") for part in parts)
        known = ("ntasks", "ntasks-per-node", "cpus-per-task", "time", "array", "gpus", "gpus-per-node")
        return option.name in (*known, "gpus-per-task")

    def _check_signal(self) -> None:
        """Note a signal that cannot be followed. Slurm sends it to all steps, so also to gofer's agent, which
        must survive it.
        """
        option = self._options.get("signal")
        if option is None or option.value is None or not self._on_slurm:
            return
        to_batch, name, _ = parse_signal(option.value)
        words = None
        if to_batch and (self._flags.time_limit_s is not None or self._time_s() is None):
            words = "it needs the script's own `--time`"
        elif not to_batch and name not in _SIGNALS_TO_STEPS:
            words = f"steps can be sent {', '.join(_SIGNALS_TO_STEPS)}; `B:{option.value}` goes to the script"
        if words is not None:
            self._note(option, words)
            del self._options["signal"]


def parse_signal(text: str) -> tuple[bool, str, int]:
    """Of `[R][B]:SIGNAL[@SECONDS]`: whether it goes to the batch script, its name, and how long before."""
    flags, colon, rest = text.rpartition(":")
    name, _, before = rest.partition("@")
    seconds = parse_count(before) if before else 60
    if seconds is None:
        raise UsageError(f"`--signal={text}` is not a signal that Slurm knows")
    return colon == ":" and "B" in flags.upper(), name.upper().removeprefix("SIG"), seconds


def find_option(sbatch: Sequence[str], name: str) -> str | None:
    """The value of an option among those of a job; "" for an option without a value; None when it is
    absent.
    """
    for word in reversed(sbatch):
        known, _, value = word[2:].partition("=")
        if known == name:
            return value
    return None
