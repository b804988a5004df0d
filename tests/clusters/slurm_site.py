"""The folder of a Slurm cluster: what is decided before it starts, and the files that say so."""

from __future__ import annotations

import json
import os
import random
import stat
import string
from dataclasses import asdict
from pathlib import Path

from clusters import groups
from clusters.checks import checked_folder
from clusters.errors import ClusterError
from clusters.network import free_subnet
from clusters.ports import free_ports
from clusters.slurm_conf import GPUS, Node, Site, cgroup_conf, gres_conf, slurm_conf

NODES = 3
RECORD = "cluster.json"
_PROGRAMS = ("slurmctld", "slurmd", "munged", "nsenter", "unshare", "setpriv", "ip")
# A path of a Unix socket has 107 characters at most.
_LONGEST = 107


def read_site(folder: Path) -> Site | None:
    """The site that was written into `folder`; None when there is none."""
    record = folder / RECORD
    if not record.exists():
        return None
    known = json.loads(record.read_text())
    nodes = tuple(Node(**node) for node in known.pop("nodes"))
    return Site(**{**known, "nodes": nodes, "folder": Path(known["folder"])})


def checked(folder: Path) -> Path:
    """The absolute folder; ClusterError when this user, this machine or this folder cannot hold a cluster."""
    folder = checked_folder(folder, what="a Slurm cluster", programs=_PROGRAMS, down="make slurm-down")
    if any(letter.isspace() or letter in ",=#()" for letter in str(folder)):
        raise ClusterError(f"{str(folder)!r} has a character that slurm.conf cannot take in a path")
    if len(str(folder / "munge/munge.sock")) > _LONGEST - 10:
        raise ClusterError(f"{folder} is too long a path for the sockets in it")
    return folder


def plan_site(folder: Path, *, accounting: bool, namespaces: bool) -> Site:
    """Names, addresses and ports that no other cluster of this machine has.

    Node names carry the tag, because nodes of all clusters share the machine's control groups.
    """
    tag = "".join(random.choices(string.ascii_lowercase, k=4))
    control, dbd, database, *ports = free_ports(3 + NODES)
    subnet = free_subnet() if namespaces else ""
    return Site(
        folder=folder,
        control=f"{tag}ctl",
        control_address=f"{subnet}.2" if subnet else "127.0.0.1",
        control_port=control,
        nodes=tuple(
            Node(f"{tag}{at}", f"{subnet}.{10 + at}" if subnet else "127.0.0.1", port)
            for at, port in enumerate(ports, 1)
        ),
        cgroups=groups.usable(),
        namespaces=namespaces,
        accounting_port=dbd if accounting else 0,
        database_port=database if accounting else 0,
    )


def write_site(site: Site) -> None:
    """The record that `down` reads, then all files and folders the daemons need."""
    folder = site.folder
    for name in ("etc", "state", "logs", "munge", "dev", *(f"spool/{node.name}" for node in site.nodes)):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    record = {**asdict(site), "folder": str(folder)}
    (folder / RECORD).write_text(json.dumps(record, indent=1))
    texts = {"slurm.conf": slurm_conf(site), "gres.conf": gres_conf(site), "hosts": site.hosts()}
    if site.cgroups:
        texts["cgroup.conf"] = cgroup_conf()
    for name, text in texts.items():
        (folder / "etc" / name).write_text(text)
    # NVIDIA's own numbers: Slurm denies a job the devices it was not given, so these must be of no other use.
    for at in range(GPUS):
        os.mknod(folder / "dev" / f"nvidia{at}", 0o666 | stat.S_IFCHR, os.makedev(195, at))
    key = folder / "munge" / "key"
    key.touch(mode=0o400)
    key.write_bytes(os.urandom(128))
