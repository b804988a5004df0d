"""Runs with a changing number of nodes, on this machine: real agents and ranks, killed and frozen.

A script counts steps and writes each with its generation. It writes a checkpoint every few steps and
continues at the last one, so its file shows lost steps, repeated steps, and whether two generations wrote at
once.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from home import Home, until

import gofer.torch

SCRIPT = """
import os, sys, time
out = os.environ["GOFER_OUTPUT_DIR"]
generation, rank, size = (os.environ[name] for name in ("GOFER_GENERATION", "RANK", "WORLD_SIZE"))
checkpoint = os.path.join(out, "model.pt")
step = int(open(checkpoint).read()) if os.path.exists(checkpoint) else 0
while not os.path.exists(os.path.join(sys.argv[1], "end")) or step % 5:
    time.sleep(0.05)
    step += 1
    with open(os.path.join(out, f"steps-{rank}.txt"), "a") as file:
        file.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME)} {generation} {size} {step}\\n")
    if rank == "0" and step % 5 == 0:
        with open(checkpoint + ".tmp", "w") as file:
            file.write(str(step))
        os.replace(checkpoint + ".tmp", checkpoint)
"""


class Step(NamedTuple):
    """One line of the script."""

    at: float
    generation: int
    size: int
    step: int


class ElasticRun:
    """A run of the script. Its agents are found by the variable of their ranks."""

    def __init__(self, home: Home, nodes: str, *options: str) -> None:
        self.home = home
        (home.folder / "count.py").write_text(SCRIPT)
        line = ["--nodes", nodes, *options, "python", "count.py", str(home.root)]
        self.id = home.gofer("submit", "-Q", *line).out.strip()

    @property
    def folder(self) -> Path:
        return self.home.run_folder(self.id)

    def steps(self, rank: int = 0) -> list[Step]:
        path = self.folder / f"outputs/steps-{rank}.txt"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        words = [line.split() for line in lines if line.endswith("\n")]
        return [Step(float(at), int(number), int(size), int(step)) for at, number, size, step in words]

    def generation(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"attempts/{number}/generation.json").read_text())
        return found

    def until_trains(self, *, nodes: int, after: int = 0) -> Step:
        """The first step of a generation behind `after` with so many nodes, once some more were made."""

        def found() -> Step | None:
            steps = [one for one in self.steps() if one.generation > after and one.size == nodes]
            return steps[0] if len(steps) > 8 else None

        step = until(found, f"generation behind {after} with {nodes} nodes")
        assert step is not None
        return step

    def agents(self) -> dict[int, int]:
        """The pid of the agent of each node of the present generation."""
        found = {}
        for process in Path("/proc").iterdir():
            try:
                pairs = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            values = dict(pair.decode().partition("=")[::2] for pair in pairs if b"=" in pair)
            if values.get("GOFER_RUN_ID") == self.id:
                found[int(values["GOFER_NODE_RANK"])] = int(values["GOFER_MEMBER"].partition(":")[0])
        return found

    def leader(self) -> int:
        """The node number of the leader."""
        versions = (self.folder / "elastic").glob("lease.*")
        newest = max(versions, key=lambda path: int(path.name.partition(".")[2]))
        lease = json.loads(newest.read_text())
        words = [member["word"] for member in lease["generation"]["members"]]
        return words.index(lease["word"])

    def finish(self) -> dict[str, Any]:
        (self.home.root / "end").touch()
        return self.home.wait(self.id)[0]

    def check_steps(self) -> None:
        """No step is missing, none is repeated beyond a checkpoint, and no two generations wrote at once."""
        for rank in range(3):
            steps = self.steps(rank)
            times: dict[int, list[float]] = {}
            for one in steps:
                times.setdefault(one.generation, []).append(one.at)
            for earlier, later in itertools.pairwise(sorted(times)):
                assert max(times[earlier]) < min(times[later])
        steps = self.steps()
        for one, following in itertools.pairwise(steps):
            if following.generation == one.generation:
                assert following.step == one.step + 1
            else:  # at most what was made after the last checkpoint is made again
                assert one.step - 5 <= following.step - 1 <= one.step


@pytest.fixture
def run(home: Home) -> ElasticRun:
    run = ElasticRun(home, "1:3", "--retries", "5")
    run.until_trains(nodes=3)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("is_leader", [False, True])
def test_a_killed_agent_is_replaced_and_its_successor_joins(run: ElasticRun, is_leader: bool) -> None:
    leader, agents = run.leader(), run.agents()
    node = leader if is_leader else next(number for number in agents if number != leader)
    os.kill(agents[node], signal.SIGKILL)
    run.until_trains(nodes=3, after=1)
    ended = run.finish()
    assert ended["state"] == "succeeded"
    assert ended["attempts"][0]["reason"] == "membership"
    assert [attempt["number"] for attempt in ended["attempts"]] == list(range(1, len(ended["attempts"]) + 1))
    run.check_steps()


@pytest.mark.slow
@pytest.mark.parametrize("is_leader", [False, True])
def test_a_frozen_agent_never_writes_beside_the_others(run: ElasticRun, is_leader: bool) -> None:
    leader, agents = run.leader(), run.agents()
    node = leader if is_leader else next(number for number in agents if number != leader)
    os.kill(agents[node], signal.SIGSTOP)
    try:
        run.until_trains(nodes=2, after=1)
    finally:
        os.kill(agents[node], signal.SIGCONT)
    run.until_trains(nodes=3, after=2)
    assert run.finish()["state"] == "succeeded"
    run.check_steps()


@pytest.mark.slow
def test_a_failed_rank_restarts_all_ranks_while_there_are_retries(home: Home) -> None:
    run = ElasticRun(home, "2:2", "--retries", "1")
    for number in (1, 2):
        run.until_trains(nodes=2, after=number - 1)
        pids = run.home.until_event(run.id, "started", attempt=number, node=1)["pids"]
        os.kill(next(iter(pids.values())), signal.SIGKILL)
    ended = home.wait(run.id)[0]
    assert (ended["state"], ended["reason"], len(ended["attempts"])) == ("failed", "signal", 2)
    run.check_steps()


@pytest.mark.slow
def test_an_elastic_run_goes_on_without_its_supervisor(run: ElasticRun) -> None:
    supervisor = run.home.supervisor()
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    os.kill(run.agents()[2], signal.SIGKILL)
    run.until_trains(nodes=3, after=1)
    assert run.finish()["state"] == "succeeded"
    run.check_steps()


@pytest.mark.slow
def test_an_elastic_run_is_aborted(run: ElasticRun) -> None:
    run.home.gofer("abort", run.id)
    ended = run.home.wait(run.id)[0]
    assert (ended["state"], ended["reason"]) == ("cancelled", "user")
    until(lambda: not run.agents(), "all ranks to end")


@pytest.mark.slow
def test_the_number_of_nodes_is_changed(run: ElasticRun) -> None:
    home = run.home
    assert "`4`" not in home.gofer("scale", run.id, "4", status=1).out
    home.gofer("scale", run.id, "2")
    run.until_trains(nodes=2, after=1)
    until(lambda: "2 nodes are wished" in home.gofer("q", run.id).out, "the generation to be shown")
    assert run.finish()["state"] == "succeeded"
    run.check_steps()


def test_a_script_asks_for_the_next_generation(home: Home) -> None:
    package = str(Path(gofer.torch.__file__).parent.parent)
    script = "import gofer.torch, os; print(gofer.torch.should_checkpoint()); gofer.torch.restart()"
    environment = f"PYTHONPATH={package}"
    line = ["--no-code", "--wait", "--nodes", "1:1", "-e", environment, "python", "-c", script]
    done = home.gofer("submit", "-Q", *line, status=75)  # nobody has asked for a checkpoint: a failure
    assert home.log(done.out.strip()) == "False\n"


def test_a_fixed_run_is_not_scaled(home: Home) -> None:
    run = home.submit("sleep", "1")
    assert "is fixed" in home.gofer("scale", run, "2", status=1).err


def test_ranks_know_their_generation(home: Home) -> None:
    names = ["RANK", "WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_USE_AGENT_STORE"]
    names += ["GOFER_GENERATION", "GOFER_MIN_NODES", "GOFER_MAX_NODES", "{GOFER_ELASTIC_KEY-none}"]
    script = "echo " + " ".join(f"${name}" for name in names)
    run = home.gofer("submit", "-Q", "--no-code", "--wait", "--nodes", "1:1", "sh", "-c", script).out.strip()
    assert home.log(run) == "0 1 0 0 False 1 1 1 none\n"


def test_what_cannot_be_elastic_is_refused(home: Home) -> None:
    done = home.gofer("submit", "--nodes", "3:1", "true", status=2)
    assert "`--nodes 3:1` is no number of nodes" in done.err
    done = home.gofer("submit", "--nodes", "1:2", "torchrun", "train.py", "--no-code", status=None)
    assert done.status != 0
    home.configure("targets: {lab: {kind: slurm, partition: gpu}}\n")
    done = home.gofer("submit", "-t", "lab", "--no-code", "--nodes", "1:2", "true", status=None)
    assert "cannot change the number of nodes of a run" in done.err, done.err


def test_a_job_file_says_how_nodes_join(home: Home) -> None:
    (home.folder / "job.yaml").write_text(
        "command: true\nnodes: {min: 1, max: 2}\nelastic: {join: now, settle: 1s, checkpoint: ['*.bin']}\n"
    )
    record = json.loads(home.gofer("submit", "--job", "job.yaml", "--dry-run").out)
    assert record["layout"]["nodes"] == 2
    assert record["elastic"] == {
        "min_nodes": 1,
        "max_nodes": 2,
        "join": "now",
        "settle_s": 1.0,
        "checkpoint": ["*.bin"],
    }
    (home.folder / "job.yaml").write_text("command: true\nnodes: {min: 3, max: 2}\n")
    assert "job.yaml:2" in home.gofer("submit", "--job", "job.yaml", status=None).err
