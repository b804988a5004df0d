"""containerd, which runs the containers of a node: its configuration, its start, its images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from clusters.cells import Cell, Daemon, all_run, call
from clusters.errors import ClusterError
from clusters.waiting import until


def copy_store(store: Path, root: Path) -> None:
    """The images of `store` in `root`, for a containerd of its own.

    Layers never change, so their files are the same files where the file system is the same.
    """
    linked = ["--link"] if store.stat().st_dev == root.parent.stat().st_dev else []
    call("cp", "--archive", *linked, str(store), str(root))
    for database in store.glob("*/*.db"):
        target = root / database.relative_to(store)
        target.unlink()
        shutil.copyfile(database, target)


def containerd_config(root: Path, pause: str, cni: Path) -> str:
    """The configuration of a containerd with its files in `root`. `pause` names the image of that program."""
    plugins = "io.containerd.grpc.v1.cri"
    unused = ("aufs", "btrfs", "zfs", "devmapper")
    disabled = [*(f"io.containerd.snapshotter.v1.{name}" for name in unused)]
    disabled.append("io.containerd.tracing.processor.v1.otlp")
    return f"""\
version = 2
root = "{root}"
state = "/run/containerd"
# Without CAP_SYS_RESOURCE, a process cannot ask to be spared when memory is short.
oom_score = 0
disabled_plugins = {json.dumps(disabled)}
[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"
[plugins."{plugins}"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."{plugins}".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{plugins}".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."{plugins}".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
"""


def start_containerd(cell: Cell, config: Path, log: Path) -> Daemon:
    """Start containerd in the cell and wait until it answers there."""
    daemon = cell.start(["containerd", "--config", str(config)], log=log, can_stop=True)
    until(lambda: all_run([daemon]) and _answers(cell), "containerd", lambda: [log])
    return daemon


def _answers(cell: Cell) -> bool:
    try:
        cell.call("ctr", "version")
    except ClusterError:
        return False
    return True
