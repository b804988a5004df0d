"""`python -m clusters slurm|ssh|k8s VERB`; exit 1 and the end of the logs when it fails."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

from clusters import slurm, ssh
from clusters.errors import ClusterError
from clusters.k8s import cluster as k8s
from clusters.k8s.faults import FAULTS, heal
from clusters.k8s.images import PYTHON, image_store
from clusters.k8s.kueue import kueue, start_kueue
from clusters.k8s.programs import programs
from clusters.k8s.simulated_nodes import add_simulated_nodes, kwok
from clusters.k8s.steps import step
from clusters.k8s.store import ACCOUNT, KEY, create_container, endpoint
from clusters.ssh_conf import NOISY, Noise
from clusters.trial_project import exports_text, lines_to_type, write_project

_ROOT = Path(__file__).resolve().parents[2]
SLURM_FOLDER = _ROOT / ".clusters" / "slurm"
SSH_FOLDER = _ROOT / ".clusters" / "ssh"
K8S_FOLDER = _ROOT / ".clusters" / "k8s"


_SLURM_TARGETS = """\
target: lab
targets:
  lab: {kind: slurm, partition: gpu, gpus_per_node: 4}
  short: {kind: slurm, partition: short, gpus_per_node: 4, time: 5m}
"""
_TARGETS_OF_SLURM = "its gofer.yaml has the targets lab (partition gpu), short"
_SSH_TARGETS = """\
target: box
targets:
  box: {kind: ssh, hosts: [hostb]}
  pool: {kind: ssh, hosts: [hosta, hostb]}
"""
_TARGETS_OF_SSH = "its gofer.yaml has the targets box (hostb, behind hosta), pool (both)"
_K8S_SETTINGS = """\
target: lab
targets:
  lab: {{kind: kubernetes, kubeconfig: {kubeconfig}, image: "{image}", gpus_per_node: 4, store: lab}}
stores:
  lab: {{url: az://gofer/lab, account: {account}, endpoint: "{endpoint}", key: "${{env:LAB_STORE_KEY}}"}}
"""
_TARGETS_OF_K8S = "its gofer.yaml has the target lab"
_SLURM_OVER_SSH = "  lab: {kind: slurm, login: login, partition: gpu, gpus_per_node: 4}\n"


def main() -> int:
    given = _parser().parse_args()
    verb = {
        ("slurm", "up"): _slurm_up,
        ("slurm", "down"): _slurm_down,
        ("slurm", "env"): _slurm_env,
        ("ssh", "up"): _ssh_up,
        ("ssh", "down"): _ssh_down,
        ("ssh", "env"): _ssh_env,
        ("k8s", "build"): _k8s_build,
        ("k8s", "up"): _k8s_up,
        ("k8s", "down"): _k8s_down,
        ("k8s", "env"): _k8s_env,
        ("k8s", "fault"): _k8s_fault,
        ("k8s", "heal"): _k8s_heal,
        ("k8s", "scale"): _k8s_scale,
    }[given.kind, given.verb]
    try:
        verb(given)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clusters", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("slurm", help="a controller and three nodes with four GPUs each")
    one.add_argument("verb", choices=["up", "down", "env"])
    one.add_argument("--dir", type=Path, default=SLURM_FOLDER, help="where it lives")
    one.add_argument("--accounting", action="store_true", help="with slurmdbd and a MariaDB of its own")
    one.add_argument("--namespaces", action="store_true", help="a network for each node")
    other = kinds.add_parser("ssh", help="two machines, one behind the other")
    other.add_argument("verb", choices=["up", "down", "env"])
    other.add_argument("--dir", type=Path, default=SSH_FOLDER, help="where they live")
    other.add_argument("--slurm", type=Path, help="add `login`, the login node of the Slurm in this folder")
    other.add_argument("--noisy", action="store_true", help="logins print a banner, and .bashrc prints too")
    other.add_argument("--slow", type=float, default=0.0, metavar="SECONDS", help="how long a login takes")
    third = kinds.add_parser("k8s", help="a control plane and three nodes")
    third.add_argument("verb", choices=["build", "up", "down", "env", "fault", "heal", "scale"])
    third.add_argument("--dir", type=Path, default=K8S_FOLDER, help="where it lives")
    third.add_argument("--nodes", type=int, default=k8s.NODES, help="how many nodes `up` and `scale` start")
    third.add_argument(
        "--simulated",
        type=int,
        default=0,
        metavar="N",
        help="kwok, for N nodes of `up` that are only simulated",
    )
    third.add_argument("--kueue", action="store_true", help="Kueue too")
    third.add_argument("fault", nargs="*", metavar="WORD NAME", help="a fault, and what it happens to")
    return parser


def _slurm_up(given: argparse.Namespace) -> None:
    began = time.monotonic()
    running = slurm.up(given.dir, accounting=given.accounting, namespaces=given.namespaces)
    print(f"# {', '.join(running.nodes)} are idle after {time.monotonic() - began:.1f} s")
    print("# partitions: gpu, short (5 minutes), spare (gives way to the others)")
    write_project(running.folder, exports_text(running.exports), _SLURM_TARGETS)
    lines = ("gofer list nodes", "gofer -n 8 submit -f python3 train.py", "gofer q last")
    print(lines_to_type(running.folder, _TARGETS_OF_SLURM, *lines), end="")


def _slurm_env(given: argparse.Namespace) -> None:
    print(exports_text(slurm.attach(given.dir).exports), end="")


def _slurm_down(given: argparse.Namespace) -> None:
    print(f"# {'ended and removed' if slurm.down(given.dir) else 'nothing runs in'} {given.dir}")


def _ssh_up(given: argparse.Namespace) -> None:
    site = slurm.attach(given.slurm) if given.slurm else None
    noise = replace(NOISY if given.noisy else Noise(), delay_s=given.slow)
    running = ssh.up(given.dir, slurm=site, noise=noise)
    print(f"# {', '.join(running.lines)} answer; `ssh -F {shlex.quote(str(running.config))} hostb` logs in")
    targets, remark = _SSH_TARGETS, _TARGETS_OF_SSH
    if site:
        targets, remark = targets + _SLURM_OVER_SSH, f"{remark}, lab (Slurm, from its login node)"
    write_project(running.folder, exports_text({}, running.bin), targets)
    lines = ("gofer list nodes -t pool", "gofer submit -f python3 train.py", "gofer q last")
    print(lines_to_type(running.folder, remark, *lines), end="")


def _ssh_env(given: argparse.Namespace) -> None:
    print(exports_text({}, ssh.attach(given.dir).bin), end="")


def _ssh_down(given: argparse.Namespace) -> None:
    print(f"# {'ended and removed' if ssh.down(given.dir) else 'nothing runs in'} {given.dir}")


def _k8s_build(given: argparse.Namespace) -> None:
    print(f"# the programs are in {programs()}, the images in {image_store()}")
    if given.simulated:
        print(f"# kwok is in {kwok()}")
    if given.kueue:
        print(f"# Kueue is in {kueue()}")


def _k8s_up(given: argparse.Namespace) -> None:
    image_store()
    if given.simulated:
        kwok()
    if given.kueue:
        kueue()
    began = time.monotonic()
    running = k8s.up(given.dir, nodes=given.nodes)
    print(f"# {', '.join(running.nodes)} are ready after {time.monotonic() - began:.1f} s")
    if given.simulated:
        with step(f"add {given.simulated} simulated nodes"):
            add_simulated_nodes(running, given.simulated)
    if given.kueue:
        with step("start Kueue"):
            start_kueue(running)
    print("# `kubectl get nodes` works after the first line, too")
    create_container(running, "gofer")
    settings = _K8S_SETTINGS.format(
        kubeconfig=running.site.kubeconfig, image=PYTHON, account=ACCOUNT, endpoint=endpoint(running)
    )
    exports = exports_text({**running.exports, "LAB_STORE_KEY": KEY}, running.path)
    write_project(running.folder, exports, settings)
    lines = ("gofer list nodes", "gofer -n 8 submit -f python3 train.py", "gofer q last")
    print(lines_to_type(running.folder, _TARGETS_OF_K8S, *lines), end="")


def _k8s_env(given: argparse.Namespace) -> None:
    running = k8s.attach(given.dir)
    print(exports_text(running.exports, running.path), end="")


def _k8s_fault(given: argparse.Namespace) -> None:
    match given.fault:
        case [word, name] if word in FAULTS:
            FAULTS[word].cause(k8s.attach(given.dir), name)
        case _:
            for word, fault in FAULTS.items():
                print(f"{word:<7} {fault.takes:<5} {(fault.cause.__doc__ or '').splitlines()[0]}")


def _k8s_heal(given: argparse.Namespace) -> None:
    running = k8s.attach(given.dir)
    heal(running)
    print(f"# the control plane and {', '.join(running.nodes)} work")


def _k8s_scale(given: argparse.Namespace) -> None:
    running = k8s.attach(given.dir)
    running.scale(given.nodes)
    print(f"# {', '.join(running.nodes)} are ready")


def _k8s_down(given: argparse.Namespace) -> None:
    print(f"# {'ended and removed' if k8s.down(given.dir) else 'nothing runs in'} {given.dir}")


sys.exit(main())
