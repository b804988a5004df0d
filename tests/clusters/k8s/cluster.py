"""A Kubernetes cluster: a control plane with a network of its own, which this machine reaches by one cable.

`up` blocks until the cluster answers and takes objects. With KUBECONFIG from `exports`, this machine is a
client with all rights.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clusters.cells import Cell, Daemon, Setup, all_run, call, find, find_one, open_cell, open_wire, sweep
from clusters.errors import ClusterError
from clusters.k8s.control_plane import HEALTH, PARTS
from clusters.k8s.programs import programs
from clusters.k8s.site import Site, plan_site, read_site, write_site
from clusters.k8s.steps import step
from clusters.network import make_switch, plug_in_caller
from clusters.waiting import TIMEOUT_S, until

_CONTROL = "control"
_SWITCH = "switch"
# The kernel keeps this much of the name of a program.
_NAME_LENGTH = 15
_BEFORE_API = ("etcd", "kube-apiserver")


@dataclass(frozen=True)
class Kubernetes:
    """A running cluster."""

    site: Site
    tied: bool = False

    @property
    def folder(self) -> Path:
        return self.site.folder

    @property
    def exports(self) -> dict[str, str]:
        """What must be set for kubectl, and no more."""
        return {"KUBECONFIG": str(self.site.kubeconfig), "KUBECACHEDIR": str(self.folder / "kubectl")}

    @property
    def path(self) -> Path:
        """The folder of kubectl."""
        return programs()

    @property
    def pids(self) -> dict[str, int]:
        """The first process of each machine and of each wire, as seen from outside."""
        return {name: cell.pid for name, cell in find(self.folder).items()}

    # -- commands

    def kubectl(self, *argv: str, text: str = "", timeout_s: float = 120.0) -> str:
        """A command of kubectl to its end, with `text` on stdin: stdout; ClusterError when it fails."""
        env = {**os.environ, **self.exports}
        return call(str(programs() / "kubectl"), *argv, env=env, text=text, timeout_s=timeout_s)

    def until(self, probe: Callable[[], object], what: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Ask until the answer is true; ClusterError with the logs of the cluster when time is up."""
        until(probe, what, lambda: sorted((self.folder / "logs").iterdir()), timeout_s=timeout_s)

    def answers(self) -> bool:
        """Whether the API server is ready."""
        return self._succeeds("get", "--raw=/readyz", "--request-timeout=5s")

    def is_ready(self) -> bool:
        """Whether all parts of the control plane work, so that pods can be created."""
        healthy = all(self._is_healthy(address) for address in HEALTH.values())
        return healthy and self._succeeds("get", "serviceaccount", "default")

    # -- parts of the control plane

    def start_part(self, name: str) -> Daemon:
        """Start a part of the control plane with the state it left; it does not yet answer then."""
        env = {"PATH": f"{programs()}:{os.environ.get('PATH', os.defpath)}"}
        log = self.folder / "logs" / f"{name}.log"
        return self._control.start(PARTS[name](self.site), log=log, env=env)

    def kill_part(self, name: str) -> None:
        """End a part of the control plane at once, as a crash would; idempotent."""
        self._signal(name, "KILL")
        self.until(lambda: not self._runs(name), f"the end of {name}")

    def heal(self) -> None:
        """Start what was killed and wait until all parts work. Idempotent."""
        for name in PARTS:
            if not self._runs(name):
                self.start_part(name)
        self.until(lambda: self.answers() and self.is_ready(), "the control plane")

    def reset(self) -> None:
        """As after `up`, except for namespaces: all parts work, and there are no jobs and no pods."""
        self.heal()
        delete = ("delete", "jobs,pods", "--all", "--all-namespaces", "--force", "--grace-period=0")
        self.kubectl(*delete, "--wait=false")

    def _signal(self, name: str, signal: str) -> None:
        with suppress(ClusterError):  # it does not run
            self._control.call("pkill", f"--signal={signal}", "--exact", name[:_NAME_LENGTH])

    def _runs(self, name: str) -> bool:
        try:
            self._control.call("pgrep", "--exact", name[:_NAME_LENGTH])
        except ClusterError:
            return False
        return True

    def _succeeds(self, *argv: str) -> bool:
        try:
            self.kubectl(*argv)
        except ClusterError:
            return False
        return True

    def _is_healthy(self, address: str) -> bool:
        try:
            self._control.call("curl", "--fail", "--silent", "--insecure", "--max-time", "5", address)
        except ClusterError:
            return False
        return True

    @property
    def _control(self) -> Cell:
        return find_one(self.folder, _CONTROL)


def up(folder: Path, *, tied: bool = False) -> Kubernetes:
    """Start a cluster in `folder`, which must not exist or be empty; ClusterError with logs when it cannot.

    Tied, it dies with the thread that called this, however that ends.
    """
    programs()
    site = plan_site(folder)
    cluster = Kubernetes(site, tied)
    try:
        write_site(site)
        _start(cluster)
    except BaseException:
        sweep(site.folder)
        raise
    return cluster


def attach(folder: Path) -> Kubernetes:
    """The cluster that runs in `folder`; ClusterError when there is none."""
    site = read_site(folder.resolve())
    if site is None or _CONTROL not in find(site.folder):
        raise ClusterError(f"no Kubernetes cluster runs in {folder}: `make k8s-up` starts one")
    return Kubernetes(site)


def down(folder: Path) -> bool:
    """End the cluster in `folder`, also one whose `up` crashed, and remove it; whether there was one."""
    folder = folder.resolve()
    site = read_site(folder)
    if not sweep(folder) and site is None:
        return False
    if site:
        shutil.rmtree(folder)
    return True


def _start(cluster: Kubernetes) -> None:
    site = cluster.site
    switch = open_wire(site.folder, _SWITCH, tied=cluster.tied)
    make_switch(switch, site.control_address)
    plug_in_caller(switch, f"k8s-{site.network.rpartition('.')[2]}", site.caller_address)
    open_cell(site.folder, _CONTROL, Setup(hostname=_CONTROL), wire=switch, tied=cluster.tied)
    with step("start etcd and the API server"):
        daemons = [cluster.start_part(name) for name in _BEFORE_API]
        cluster.until(lambda: all_run(daemons) and cluster.answers(), "the API server")
    with step("start the controller manager and the scheduler"):
        daemons += [cluster.start_part(name) for name in PARTS if name not in _BEFORE_API]
        cluster.until(
            lambda: all_run(daemons) and cluster.is_ready(), "the controller manager and the scheduler"
        )
