"""What a machine has before gofer is installed there: Python, GPUs, the home folder, Slurm.

One shell script asks all of it, on this machine or over SSH.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import NamedTuple

from gofer.core.json_text import parse_count
from gofer.text import quote_command
from gofer.transport import process
from gofer.transport.shared_connection import (
    explain_failure,
    quiet_environment,
    sockets_folder,
    ssh_argv,
)

_PATIENCE_S = 60.0
_OLDEST = (3, 8)
_MARK = "gofer-says"
# Lines of a login, such as a banner, do not begin with the mark.
_SCRIPT = rf"""
say() {{ sed "s/^/{_MARK} $1 /"; }}
for python in python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 \
    /usr/bin/python3 /usr/local/bin/python3 \
    ~/miniconda3/bin/python ~/miniforge3/bin/python ~/anaconda3/bin/python
do
    version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) &&
        echo "$python $version" | say python
done
hostname | say host
(nproc || getconf _NPROCESSORS_ONLN) 2>/dev/null | say cpus
sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo 2>/dev/null | say memory
nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | say gpu
echo "$HOME" | say home
df -P -T "$HOME" 2>/dev/null | sed 1d | say disk
if command -v sinfo >/dev/null 2>&1; then
    echo yes | say slurm
    sinfo --noheader --format='%P|%a|%D|%c|%G|%l' 2>&1 | say partition
    sacctmgr --noheader --parsable2 show assoc user="$(id -un)" format=Account 2>/dev/null |
        sort -u | say account
fi
echo done | say end
"""
_GPUS = re.compile(r"gpu(?::([A-Za-z][^:,()]*))?:(\d+)")
_SHARED_DISKS = (
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "ceph",
    "fuse.ceph",
    "cifs",
    "panfs",
    "wekafs",
    "glusterfs",
)


class Partition(NamedTuple):
    """A partition of Slurm as `sinfo` shows it; `gpus` are those of its nodes, by type."""

    name: str
    is_default: bool
    is_up: bool
    nodes: int
    cpus: str
    gpus: dict[str, int]
    time_limit: str


class MachineDescription(NamedTuple):
    """What the script found. `pythons` are (path, version) of interpreters that can run gofer's agent.
    `partitions` are empty without Slurm.
    """

    host: str
    pythons: tuple[tuple[str, str], ...]
    old_python: str | None
    cpus: int
    memory_mib: int
    gpus: tuple[str, ...]
    home: str
    disk: str
    has_slurm: bool
    partitions: tuple[Partition, ...]
    accounts: tuple[str, ...]

    @property
    def has_shared_home(self) -> bool:
        """Whether other machines can see the home folder, by the type of its file system."""
        return self.disk.lower().startswith(_SHARED_DISKS)


def describe_machine(host: str | None) -> MachineDescription:
    """What `ssh HOST`, or this machine without a host, has. Blocks. Installs nothing.

    Unreachable when the machine does not answer.
    """
    words = ["sh", "-c", _SCRIPT]
    if host is None:
        return parse(process.run(words, timeout_s=_PATIENCE_S).stdout.decode("utf-8", "replace"))
    # Output goes to files: a shared connection that stays in the background would keep a pipe open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        sockets = sockets_folder(os.environ)
        argv = [*ssh_argv(host, sockets), quote_command(words)]
        quiet = quiet_environment(os.environ)
        status = process.run_into(argv, out, complaints, timeout_s=_PATIENCE_S, env=quiet)
        out.seek(0)
        complaints.seek(0)
        text = out.read().decode("utf-8", "replace")
        if f"{_MARK} end" not in text:
            said = complaints.read(1 << 16).decode("utf-8", "replace")
            raise explain_failure(host, status, said, sockets=sockets)
    return parse(text)


def parse(text: str) -> MachineDescription:
    """The description in the output of the script. Pure."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        mark, _, rest = line.partition(" ")
        if mark == _MARK:
            name, _, value = rest.partition(" ")
            found.setdefault(name, []).append(value.strip())
    pythons = [
        (path, version) for path, _, version in (one.partition(" ") for one in found.get("python", ()))
    ]
    partitions: dict[str, Partition] = {}
    for line in found.get("partition", ()):
        _add_partition(partitions, line.split("|"))
    return MachineDescription(
        host=_first(found, "host"),
        pythons=tuple(one for one in pythons if _is_new_enough(one[1])),
        old_python=next((version for _, version in pythons if not _is_new_enough(version)), None),
        cpus=parse_count(_first(found, "cpus")) or 0,
        memory_mib=(parse_count(_first(found, "memory")) or 0) // 1024,
        gpus=tuple(found.get("gpu", ())),
        home=_first(found, "home"),
        disk=[*_first(found, "disk").split(), "", ""][1],
        has_slurm="slurm" in found,
        partitions=tuple(partitions.values()),
        accounts=tuple(one for one in found.get("account", ()) if one),
    )


def _first(found: dict[str, list[str]], name: str) -> str:
    return (found.get(name) or [""])[0]


def _is_new_enough(version: str) -> bool:
    numbers = [parse_count(part) or 0 for part in version.split(".")]
    return tuple(numbers[:2]) >= _OLDEST


def _add_partition(partitions: dict[str, Partition], words: list[str]) -> None:
    """Add a line of `sinfo`, which prints a partition once for each kind of its nodes."""
    if len(words) != 6:
        return
    name, state, nodes, cpus, gres, limit = words
    gpus = {kind or "gpu": int(count) for kind, count in _GPUS.findall(gres)}
    plain = name.rstrip("*")
    known = partitions.get(plain)
    if known is None:
        partitions[plain] = Partition(
            plain, name.endswith("*"), state == "up", parse_count(nodes) or 0, cpus, gpus, limit
        )
    else:
        merged = {**known.gpus, **gpus}
        partitions[plain] = known._replace(nodes=known.nodes + (parse_count(nodes) or 0), gpus=merged)
