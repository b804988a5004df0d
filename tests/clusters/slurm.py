"""A Slurm cluster of Debian's packages: a controller and three nodes, each with its own processes.

`up` blocks until every node is idle. With SLURM_CONF from `exports` this machine is a login node of the
cluster. With `namespaces` each node has its own network as well, and can be cut off.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clusters import groups
from clusters.cells import (
    Cell,
    Daemon,
    Setup,
    all_run,
    attached,
    call,
    close,
    find,
    find_one,
    open_cell,
    open_wire,
    remove,
    sweep,
)
from clusters.errors import ClusterError
from clusters.network import make_switch, plug, plug_in_caller, set_port
from clusters.slurm_conf import Site
from clusters.slurm_site import checked, plan_site, read_site, write_site
from clusters.slurmdbd import set_limits, start_accounting
from clusters.waiting import TIMEOUT_S, until

_CONTROL = "control"
_SWITCH = "switch"


@dataclass(frozen=True)
class Slurm:
    """A running cluster. `env` is what a command needs to talk to it."""

    site: Site
    tied: bool = False

    @property
    def folder(self) -> Path:
        return self.site.folder

    @property
    def nodes(self) -> list[str]:
        return [node.name for node in self.site.nodes]

    @property
    def exports(self) -> dict[str, str]:
        """What must be set, and no more."""
        return {"SLURM_CONF": str(self.site.conf)}

    @property
    def env(self) -> dict[str, str]:
        """The whole environment: this process's, less what belongs to another Slurm job, and `exports`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return {**kept, **self.exports}

    @property
    def pids(self) -> dict[str, int]:
        """The first process of each machine and of each wire, as seen from outside."""
        return {name: cell.pid for name, cell in find(self.folder).items()}

    # -- commands

    def call(self, *argv: str, timeout_s: float = 120.0) -> str:
        """A Slurm command, to its end: stdout; ClusterError when it fails."""
        return call(*argv, env=self.env, timeout_s=timeout_s)

    def sbatch(self, script: str, *options: str, cwd: Path) -> str:
        """Submit `script`, a shell's text, to run in `cwd`; the job's number."""
        done = subprocess.run(
            ["sbatch", "--parsable", *options],
            input=f"#!/bin/bash\n{script}\n",
            env=self.env,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise ClusterError(f"sbatch exited {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip().partition(";")[0]

    def job(self, job: str) -> dict[str, str]:
        """`scontrol show job`, by key; empty when the controller has forgotten it."""
        try:
            text = self.call("scontrol", "--oneliner", "show", "job", job)
        except ClusterError as error:
            if "Invalid job id" not in str(error):
                raise
            return {}
        return dict(word.partition("=")[::2] for word in text.split() if "=" in word)

    def state(self, job: str) -> str:
        """The job's state in Slurm's long words; that of its end when the controller has forgotten it."""
        return self.job(job).get("JobState", "") or self._end(job)

    def _end(self, job: str) -> str:
        """How it ended, in the controller's own list, which forgets nothing; empty when it has not."""
        result = self.folder / "logs" / "jobs.txt"
        for line in reversed(result.read_text().splitlines() if result.exists() else []):
            facts = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
            if facts.get("JobId") == job:
                return facts.get("JobState", "")
        return ""

    def node_state(self, name: str) -> str:
        """Like `idle`, `mixed`, `down*`; a star says that the node does not answer."""
        return self.call("sinfo", "--noheader", "--Node", f"--nodes={name}", "--format=%T").split()[0]

    def until(self, probe: Callable[[], object], what: str, *, timeout_s: float = TIMEOUT_S) -> None:
        """Ask until the answer is true; ClusterError with the controller's log when time is up."""
        folder = self.folder / "logs"
        until(
            probe,
            what,
            lambda: [*sorted(folder.glob("*.out")), *sorted(folder.glob("*.log"))],
            timeout_s=timeout_s,
        )

    def until_state(self, job: str, *states: str, timeout_s: float = TIMEOUT_S) -> None:
        """Until the job is in one of the states."""
        self.until(lambda: self.state(job) in states, f"job {job} {' or '.join(states)}", timeout_s=timeout_s)

    def answers(self) -> bool:
        """Whether slurmctld is there."""
        try:
            return "is UP" in self.call("scontrol", "ping", timeout_s=60)
        except ClusterError:
            return False

    def is_idle(self) -> bool:
        """Whether every node is up and has nothing to do."""
        return set(self.call("sinfo", "--noheader", "--Node", "--format=%T").split()) == {"idle"}

    def until_idle(self) -> None:
        """Until every node is up and has nothing to do."""
        self.until(self.is_idle, "idle nodes")

    # -- faults

    def kill_node(self, name: str) -> None:
        """Like a power cut: every process of the node ends at once, without notice to the controller."""
        close(find_one(self.folder, name))

    def start_node(self, name: str) -> Daemon:
        """Switch on a node that was killed. It is not yet idle when this returns."""
        groups.clear(f"slurm_{name}")
        setup = Setup(hostname=name, binds={"/etc/hosts": self.site.conf.with_name("hosts")})
        wire = find(self.folder).get(f"{name}-wire")
        cell = open_cell(self.folder, name, setup, wire=wire, tied=self.tied)
        log = self.folder / "logs" / f"{name}.out"
        return cell.start(["slurmd", "-D", "-N", name], log=log, env=self.exports)

    def cut_node(self, name: str) -> None:
        """Pull the node's network cable; its processes go on. Only with namespaces."""
        set_port(self._switch(), f"{name}-wire", up=False)

    def heal(self) -> None:
        """Put cables back, switch nodes on and wait until all is idle again. Idempotent."""
        open_now = find(self.folder)
        for name in self.nodes:
            if self.site.namespaces:
                set_port(self._switch(), f"{name}-wire", up=True)
            if name not in open_now:
                self.start_node(name)
        self.until_idle()

    def reset(self) -> None:
        """As after `up`: no jobs, every node idle, the controller answering."""
        if not self.answers():
            self.start_controller()
            self.until(self.answers, "slurmctld")
        # What ignores SIGTERM would hold a node for as long as KillWait.
        self.call("scancel", "--state=PENDING", "--user=root")
        self.call("scancel", "--signal=KILL", "--full", "--user=root")
        self.call("scancel", "--user=root")
        self.heal()

    def stop_controller(self) -> None:
        """End slurmctld alone, once it has saved its state: commands fail, jobs go on."""
        control, pid = find_one(self.folder, _CONTROL), (self.folder / "slurmctld.pid").read_text().strip()
        control.call("kill", "-TERM", pid)
        control.call("bash", "-c", f"while [ -e /proc/{pid} ]; do sleep 0.05; done")

    def start_controller(self) -> Daemon:
        """Start slurmctld with the state it left; it does not yet answer when this returns."""
        control = find_one(self.folder, _CONTROL)
        log = self.folder / "logs" / "slurmctld.out"
        return control.start(["slurmctld", "-D"], log=log, env=self.exports)

    def _switch(self) -> Cell:
        if not self.site.namespaces:
            raise ClusterError("nodes without namespaces share one network: there is no cable to pull")
        return find_one(self.folder, _SWITCH)


def up(folder: Path, *, accounting: bool = False, namespaces: bool = False, tied: bool = False) -> Slurm:
    """Start a cluster in `folder`, which must not exist or be empty; ClusterError with logs when it cannot.

    Tied, it dies with the thread that called this, however that ends.
    """
    site = plan_site(checked(folder), accounting=accounting, namespaces=namespaces)
    slurm = Slurm(site, tied)
    try:
        write_site(site)
        _start(slurm)
    except BaseException:
        sweep(site.folder)
        _clear_groups(site)
        raise
    return slurm


def attach(folder: Path) -> Slurm:
    """The cluster that runs in `folder`; ClusterError when there is none."""
    site = read_site(folder.resolve())
    return Slurm(attached(site, folder, _CONTROL, "no Slurm runs: `make slurm-up` starts one"))


def down(folder: Path) -> bool:
    """End the cluster in `folder`, also one whose `up` crashed, and remove it; whether there was one."""
    folder = folder.resolve()
    return remove(folder, read_site(folder), _clear_groups)


def _clear_groups(site: Site) -> None:
    for node in site.nodes:
        groups.clear(f"slurm_{node.name}")


def _start(slurm: Slurm) -> None:
    site, folder = slurm.site, slurm.folder
    switch = None
    if site.namespaces:
        switch = open_wire(folder, _SWITCH, tied=slurm.tied)
        make_switch(switch, site.control_address)
        plug_in_caller(switch, f"gofer-{site.control}", f"{site.control_address.rpartition('.')[0]}.1")
        for node in site.nodes:
            plug(switch, open_wire(folder, f"{node.name}-wire", tied=slurm.tied), node.address)
    setup = Setup(hostname=site.control, binds={"/etc/hosts": folder / "etc" / "hosts"})
    control = open_cell(folder, _CONTROL, setup, wire=switch, tied=slurm.tied)
    _start_munge(slurm, control)
    if site.accounting_port:
        start_accounting(site, control)
    daemons = [slurm.start_controller(), *(slurm.start_node(node.name) for node in site.nodes)]
    slurm.until(lambda: all_run(daemons) and slurm.answers(), "slurmctld")
    slurm.until(lambda: all_run(daemons) and slurm.is_idle(), "idle nodes")
    if site.accounting_port:
        set_limits(site)


def _start_munge(slurm: Slurm, control: Cell) -> None:
    munge, log = slurm.folder / "munge", slurm.folder / "logs" / "munged.log"
    argv = ["munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/munge.sock"]
    argv += [f"--pid-file={munge}/pid", f"--seed-file={munge}/seed", f"--log-file={log}"]
    daemon = control.start(argv, log=slurm.folder / "logs" / "munged.out")
    slurm.until(lambda: all_run([daemon]) and _listens(munge / "munge.sock"), "munged")


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0
