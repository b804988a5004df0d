"""Other capabilities of a site: nodes, free resources, why a run waits, and a shell next to a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome

from gofer.backends.base import RunRef
from gofer.backends.slurm.backend import SlurmBackend
from gofer.errors import CheckFailed

pytestmark = ON_SLURM


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> SlurmHome:
    monkeypatch.setenv("SLURM_CONF", slurm.exports["SLURM_CONF"])
    return SlurmHome(tmp_path, slurm)


@pytest.fixture
def backend(home: SlurmHome) -> SlurmBackend:
    found = home.session().backend("lab")
    assert isinstance(found, SlurmBackend)
    return found


def test_nodes_and_what_is_free(home: SlurmHome, backend: SlurmBackend) -> None:
    run = home.submit("-n", "3", "sh", "-c", "echo up; sleep 300")
    home.until_logged(run, "up")
    first, second, third = backend.nodes()
    assert [one.name for one in (first, second, third)] == home.slurm.nodes
    assert (first.state, first.gpus, first.gpus_free, first.gpu_type) == ("mixed", 4, 1, "a100")
    assert (second.state, second.gpus_free, second.cpus_free) == ("free", 4, 16)
    assert second.partitions == ("gpu", "short", "spare")
    result = backend.describe()
    assert result["gpus"] == {"a100": {"free": 9, "total": 12}}
    assert (result["mine"], result["limits"]) == ({"running": 1}, [])


def test_a_drained_node_is_down(home: SlurmHome, backend: SlurmBackend) -> None:
    name = home.slurm.nodes[2]
    home.slurm.call("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
    try:
        found = backend.nodes()[2]
    finally:
        home.slurm.call("scontrol", "update", f"nodename={name}", "state=resume")
    assert (found.state, found.detail, found.gpus_free) == ("down", "drained", 0)


def test_why_a_run_waits(home: SlurmHome, backend: SlurmBackend) -> None:
    home.slurm.sbatch("sleep 300", "-N3", "--exclusive", "--output=/dev/null", cwd=home.root)
    first, second = home.submit("sleep", "300"), home.submit("--each", "x=1,2", "sleep", "300")

    def why(run: RunRef) -> str:
        found = backend.waiting(run)
        return found.why if found and found.ahead is not None and "considered" not in found.why else ""

    assert until(lambda: why(RunRef(first)), "a reason").endswith(("(Resources)", "(Priority)"))
    row = RunRef(f"{second}-1", second, 1)
    assert until(lambda: why(row), "a reason").endswith(("(Resources)", "(Priority)"))
    found = backend.waiting(row)
    assert found is not None and found.ahead is not None and found.ahead >= 1
    assert backend.waiting(RunRef("r000101-000000-bbbbbb")) is None


def test_a_time_limit_above_the_sites_is_reported(home: SlurmHome, backend: SlurmBackend) -> None:
    home.target("partition: short")
    run = home.submit("--time-limit", "1h", "true")

    def why() -> str:
        found = backend.waiting(RunRef(run))
        return found.why if found and "PartitionTimeLimit" in found.why else ""

    words = until(why, "a reason")
    assert words == "its time limit is longer than the partition's, so it never starts (PartitionTimeLimit)"


def test_a_shell_is_inside_the_allocation(home: SlurmHome, backend: SlurmBackend) -> None:
    run = home.submit("-n", "2", "sh", "-c", "echo up; sleep 300")
    home.until_logged(run, "up")
    script = "echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES $(hostname)"
    argv = backend.shell(RunRef(run), ["sh", "-c", script], terminal=False)
    done = subprocess.run(
        argv,
        env=home.environ,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=True,
    )
    assert done.stdout.split() == [home.job(run), "0,1", home.slurm.nodes[0]]
    assert "--pty" in backend.shell(RunRef(run), [], terminal=True)


def test_there_is_no_shell_beside_what_does_not_run(home: SlurmHome, backend: SlurmBackend) -> None:
    done = home.finish("true")
    home.slurm.until_state(home.job(done["id"]), "COMPLETED")  # the run has ended before its script has
    with pytest.raises(CheckFailed, match="a shell needs a run that is running"):
        backend.shell(RunRef(done["id"]), [], terminal=False)


def test_words_that_a_shell_would_read_pass_through_sbatch(home: SlurmHome) -> None:
    home.target("constraint: 'a100&lab', extra: ['--comment=\"two words\"'], prelude: 'export MARK=\"a  b\"'")
    done = home.finish("sh", "-c", 'echo "$MARK"')
    assert (done["state"], home.log(done["id"])) == ("succeeded", "a  b\n")


def test_memory_and_the_type_of_gpus_are_asked_for(home: SlurmHome) -> None:
    run = home.submit("-n", "2", "--single", "--memory", "1.5GiB", "--gpu-type", "A100", "sleep", "300")
    job = home.slurm.call("scontrol", "show", "job", home.job(run))
    assert "MinMemoryNode=1.50G" in job and "gres:gpu:a100:2" in job
    home.gofer("abort", run)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-N", "4"], "the run needs 4 nodes of the target `lab`; it has 3"),
        (["-n", "16"], "the run needs 4 nodes of the target `lab` with 4 GPUs; 3 of its 3 nodes have that"),
        (["--cpus", "500"], "a node of the target `lab` with 500 CPUs; 0 of its 3 nodes have that"),
        (["--memory", "900T"], "of memory; 0 of its 3 nodes have that"),
        (
            ["-n", "1", "--gpu-type", "h100"],
            "asks for GPUs of the type `h100`, and the target `lab` has none",
        ),
    ],
)
def test_what_the_site_can_never_run_is_refused_before_the_code_is_sent(
    home: SlurmHome, options: list[str], words: str
) -> None:
    done = home.gofer("submit", *options, "true", status=1)
    assert words in done.err and "code:" not in done.err
    assert not list(home.store.glob("runs/*"))
