"""Recognise commands that are launchers themselves, such as `torchrun` or `mpirun`. Pure.

gofer must not start a launcher once per rank, because the launcher starts the ranks. Some launchers start the
processes of their own node; gofer starts them once on each node. Others (`SPANNING`) reach the other nodes by
themselves; gofer starts them once in the whole run.
"""

from __future__ import annotations

import os
import re
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

from gofer.core.json_text import parse_count

TORCHRUN = "torchrun"
ACCELERATE = "accelerate launch"
FABRIC = "fabric run"
# DeepSpeed reaches other nodes by SSH. With this option it is started on each node and needs no SSH.
DEEPSPEED_NO_SSH = "deepspeed --no_ssh"
# Each of these reaches all nodes from the first node.
SPANNING = ("mpirun", "horovodrun", "deepspeed", "srun", "ray")

_PROGRAMS = {
    **{name: "mpirun" for name in ("mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra")},
    **{name: "mpirun" for name in ("mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich")},
    **{name: name for name in (TORCHRUN, "horovodrun", "deepspeed", "srun", "ray")},
    "deepspeed.pt": "deepspeed",
    "accelerate-launch": ACCELERATE,
}
# Programs that are launchers only when this word follows.
_WITH_WORD = {
    "accelerate": ("launch", ACCELERATE),
    "accelerate.commands.accelerate_cli": ("launch", ACCELERATE),
    "fabric": ("run", FABRIC),
    "lightning": ("run", FABRIC),
    "lightning.fabric.cli": ("run", FABRIC),
}
_MODULES = {
    **{f"torch.distributed.{name}": TORCHRUN for name in ("run", "launch")},
    "accelerate.commands.launch": ACCELERATE,
    "deepspeed.launcher.runner": "deepspeed",
    "horovod.runner.launch": "horovodrun",
}
# Programs that run the command after them, with the options whose value is the next word.
_WRAPPERS: Dict[str, Tuple[str, ...]] = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "nice": ("-n", "--adjustment"),
    "nohup": (),
    "time": ("-o", "--output", "-f", "--format"),
    "exec": (),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
    "stdbuf": ("-i", "--input", "-o", "--output", "-e", "--error"),
    "setsid": (),
    "taskset": (),
    "ionice": ("-c", "--class", "-n", "--classdata"),
    "numactl": (
        *("-i", "--interleave", "-p", "--preferred", "-N", "--cpunodebind", "-m", "--membind"),
        *("-C", "--physcpubind", "--cpubind", "-w", "--weighted-interleave", "-P", "--preferred-many"),
    ),
}
# Of these, one more word stands before the command: the seconds of `timeout`, the CPUs of `taskset`.
_WITH_OPERAND = ("timeout", "taskset")
# The same for programs that need the word `run` before the command.
_RUNNERS: Dict[str, Tuple[str, ...]] = {
    "uv": (
        *(
            "--with",
            "--with-editable",
            "--with-requirements",
            "--extra",
            "--group",
            "--no-group",
            "--only-group",
        ),
        *(
            "-p",
            "--python",
            "--package",
            "--project",
            "--directory",
            "--env-file",
            "--config-file",
            "--index",
        ),
        *("--default-index", "--index-url", "-i", "--extra-index-url", "-f", "--find-links", "--cache-dir"),
    ),
    "poetry": ("-C", "--directory", "-P", "--project"),
    "pdm": ("-p", "--project", "--venv"),
    "pipenv": (),
    "conda": ("-n", "--name", "-p", "--prefix", "--cwd"),
    "mamba": ("-n", "--name", "-p", "--prefix", "--cwd"),
    "micromamba": ("-n", "--name", "-p", "--prefix", "--cwd", "-e", "--env"),
    "pixi": ("-e", "--environment", "--manifest-path"),
    "rye": ("--pyproject",),
    "hatch": ("-e", "--env", "-p", "--project"),
}
PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
# `-m`, also behind other letters (`-um`) and with the module in the same word (`-mpackage.module`).
MODULE_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]*m(.*)")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
OPTIONS_OF_PYTHON = ("-W", "-X", "--check-hash-based-pycs")


class Launcher(NamedTuple):
    """A launcher in a command. `at` is the index in the command where the launcher's options begin."""

    name: str
    at: int

    @property
    def spans_nodes(self) -> bool:
        return self.name in SPANNING


def detect(argv: Sequence[str]) -> Optional[Launcher]:
    """The launcher that a command starts, also through `uv run`, `env` or `python -m`; None for other
    commands.
    """
    at = skip_wrappers(argv)
    if at >= len(argv):
        return None
    program = os.path.basename(argv[at])
    if PYTHON.fullmatch(program):
        return _behind_python(argv, at + 1)
    return _named(program, argv, at + 1)


def _named(program: str, argv: Sequence[str], at: int) -> Optional[Launcher]:
    name = _PROGRAMS.get(program) or _MODULES.get(program)
    if name is not None:
        found = Launcher(name, at)
        has_no_ssh = name == "deepspeed" and "no_ssh" in given_options(found, argv)
        return found._replace(name=DEEPSPEED_NO_SSH) if has_no_ssh else found
    word, name = _WITH_WORD.get(program, ("", ""))
    if not name or list(argv[at : at + 1]) != [word]:
        return None
    is_model = program == "lightning" and list(argv[at + 1 : at + 2]) == ["model"]
    return Launcher(name, at + 1 + is_model)


def _behind_python(argv: Sequence[str], at: int) -> Optional[Launcher]:
    """The launcher of a command such as `python -u -m torch.distributed.run …` or `python /usr/bin/torchrun
    …`.
    """
    while at < len(argv) and argv[at].startswith("-"):
        word = argv[at]
        module = MODULE_OPTION.fullmatch(word)
        if module is not None:
            name, at = (module[1], at + 1) if module[1] else ("".join(argv[at + 1 : at + 2]), at + 2)
            return _named(name, argv, at) if "." in name else None
        at += 2 if word in OPTIONS_OF_PYTHON else 1
    return None if at >= len(argv) else _named(os.path.basename(argv[at]), argv, at + 1)


def skip_wrappers(argv: Sequence[str]) -> int:
    """The index of the program that the wrappers before it run."""
    at = 0
    while at < len(argv):
        name = os.path.basename(argv[at])
        if name in _WRAPPERS:
            at = _skip_options(argv, at + 1, _WRAPPERS[name])
            at += name in _WITH_OPERAND
            while name == "env" and at < len(argv) and _ASSIGNMENT.match(argv[at]):
                at += 1
        elif name in _RUNNERS:
            behind = _skip_options(argv, at + 1, _RUNNERS[name])
            if list(argv[behind : behind + 1]) != ["run"]:
                return at
            at = _skip_options(argv, behind + 1, _RUNNERS[name])
        else:
            return at
    return at


def _skip_options(argv: Sequence[str], at: int, valued: Sequence[str]) -> int:
    while at < len(argv) and argv[at].startswith("-"):
        if argv[at] == "--":
            return at + 1
        at += 2 if argv[at] in valued else 1
    return at


# -- what cannot be filled


def refusal(
    launcher: Launcher, argv: Sequence[str], nodes: int, *, one_machine: bool = False
) -> Optional[str]:
    """Why the command, as written, cannot run on this number of nodes; None when it can.

    With `one_machine` all nodes are the same machine, and can meet at `localhost`.
    """
    if nodes == 1 or launcher.spans_nodes:
        return None
    given = given_options(launcher, argv)
    if launcher.name == TORCHRUN and "standalone" in given:
        return "`--standalone` is for one node"
    for option in ("node_rank", "machine_rank"):
        if option in given:
            return f"`--{option.replace('_', '-')}` would be the same on every node"
    for option in ("nnodes", "num_machines", "num_nodes"):
        value = given.get(option)
        if value is not None and not _allows(value, nodes):
            return f"`--{option.replace('_', '-')} {value}` is another number of nodes"
    for option in _MEETINGS.get(launcher.name, ()):
        value = given.get(option, "")
        host, port = _split_port(value) if option == "rdzv_endpoint" else (value, "")
        if port == "0" or (not one_machine and host.strip("[]") in _THIS_MACHINE):
            return f"`--{option.replace('_', '-')} {value}` is another place on every node"
    return None


# Options that say where nodes meet. torchrun asks for an endpoint, which gofer fills, before `--master-addr`.
_MEETINGS = {
    TORCHRUN: ("rdzv_endpoint",),
    ACCELERATE: ("main_process_ip",),
    FABRIC: ("main_address",),
    DEEPSPEED_NO_SSH: ("master_addr",),
}
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


def _split_port(value: str) -> Tuple[str, str]:
    host, colon, port = value.rpartition(":")
    return (host, port) if colon and port.isdigit() else (value, "")


def _allows(value: str, nodes: int) -> bool:
    """Whether `2` or a range such as `1:4` includes this number of nodes. A value that is not a number is
    accepted: the launcher checks it.
    """
    first, _, last = value.partition(":")
    least, most = parse_count(first), parse_count(last or first)
    return least is None or most is None or least <= nodes <= most


_FLAGS = {
    *("standalone", "no_python", "module", "use_env", "run_path", "same_network", "multi_gpu", "cpu", "tpu"),
    *("use_deepspeed", "use_fsdp", "use_megatron_lm", "enable_cpu_affinity", "debug", "quiet", "q", "m"),
    *("no_ssh", "no_ssh_check", "no_local_rank", "force_multi", "save_pid", "bind_cores_to_rank", "verbose"),
}


def given_options(launcher: Launcher, argv: Sequence[str]) -> Dict[str, str]:
    """The launcher's own options, by name with underscores. The words from its script on are not read."""
    found: Dict[str, str] = {}
    at = launcher.at
    while at < len(argv) and argv[at].startswith("-"):
        name, equals, value = argv[at].partition("=")
        key = name.lstrip("-").replace("-", "_")
        following = "".join(argv[at + 1 : at + 2])
        is_flag = key in _FLAGS or following.startswith("-")
        found[key] = value if equals or is_flag else following
        at += 1 if equals or is_flag else 2
    return found
