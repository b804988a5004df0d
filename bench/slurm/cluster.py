"""A cluster for one measurement, and a gofer, a submitit and a shell in front of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import measure
from bench.errors import BenchError
from bench.measure import Sample
from bench.places import DRIVERS, REPOSITORY, gofer_argv
from bench.plan import Plan
from bench.slurm.tally import Call, Tally

TESTS = str(REPOSITORY / "tests")
TIMEOUT_S = 300
_CONFIG = """\
targets:
  lab: {{kind: slurm, gpus_per_node: 4, folder: {root}/far, store: shared, extra: ["--hold"]}}
stores:
  shared: {{url: "file://{root}/store"}}
target: lab
"""


@dataclass(frozen=True)
class BenchCluster:
    """`env` is that of a login node of the cluster."""

    plan: Plan
    env: Mapping[str, str]
    tally: Tally

    @classmethod
    def of(cls, plan: Plan, exports: Mapping[str, str]) -> BenchCluster:
        """On a cluster that runs; `exports` lead to it."""
        own = plan.places.environment().items()
        kept = {name: value for name, value in own if not name.startswith(("SLURM_", "SBATCH_"))}
        return cls(plan, {**kept, **exports}, Tally.make(plan.places.fresh("tally")))

    def new_user(self) -> GoferUser:
        """A new user: gofer's caches are empty."""
        root = self.plan.places.fresh("user")
        for name in ("project", "store", "home"):
            (root / name).mkdir()
        (root / "project" / "gofer.yaml").write_text(_CONFIG.format(root=root), encoding="utf-8")
        path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        # Of the source tree, if gofer is not installed; what the cluster needs is not gofer's.
        kept = os.pathsep.join(one for one in path if one and Path(one).resolve() != Path(TESTS))
        found = {"PYTHONPATH": kept} if kept else {}
        return GoferUser(self, root, {**self.env, **found, "GOFER_HOME": str(root / "home")})

    def slurm(self, *argv: str, is_counted: bool = False) -> Sample:
        """One of Slurm's own programs, or a shell that starts them; to its end."""
        env = self.tally.environment(self.env) if is_counted else self.env
        return measure.run(argv, env=env, cwd=self.plan.places.scratch, timeout_s=TIMEOUT_S)

    def submitit(self, *words: str, is_counted: bool = False) -> Sample:
        """The driver with `words`, in submitit's own interpreter."""
        argv = [self.plan.peers.program("submitit", "python"), str(DRIVERS / "submitit_slurm.py"), *words]
        return self.slurm(*argv, is_counted=is_counted)

    def count(self) -> list[Call]:
        """The calls since this was last asked."""
        found = self.tally.calls()
        self.tally.clear()
        return found

    def empty(self) -> None:
        """Takes every job from the queue, so that it is as long for the next."""
        self.slurm("scancel", "--user=root")


@dataclass(frozen=True)
class GoferUser:
    """One user's gofer, its state and its project below `root`."""

    cluster: BenchCluster
    root: Path
    env: Mapping[str, str]

    def gofer(self, *words: str, is_counted: bool = False) -> Sample:
        env = self.cluster.tally.environment(self.env) if is_counted else self.env
        project = self.root / "project"
        return measure.run([*gofer_argv(), *words], env=env, cwd=project, timeout_s=TIMEOUT_S)

    def queued(self) -> int:
        """How many runs a listing says are queued, rows of arrays and not the arrays themselves."""
        rows = json.loads(self.gofer("list", "runs", "--all", "--rows", "--json").output)
        arrays = {row["group"] for row in rows}
        return sum(row["state"] == "queued" and row["id"] not in arrays for row in rows)


@contextmanager
def start_cluster(plan: Plan) -> Iterator[BenchCluster]:
    """A cluster with accounting, which submitit asks; it ends with the block, or with this process.

    BenchError when it cannot be started.
    """
    if TESTS not in map(os.path.abspath, sys.path):
        raise BenchError("the cluster is that of the tests: `make bench-slurm`, or PYTHONPATH=tests")
    from clusters import slurm
    from clusters.errors import ClusterError

    folder = plan.places.fresh("slurm")
    try:
        site = slurm.up(folder, accounting=True, tied=True)
    except ClusterError as error:
        raise BenchError(f"no cluster: {str(error).splitlines()[0]}") from error
    try:
        yield BenchCluster.of(plan, site.exports)
    finally:
        slurm.down(folder)
