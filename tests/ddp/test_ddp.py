"""The DDP example under every launcher, with a real torch. `make test-torch` installs it and runs these."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from home import Home

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "ddp" / "train.py"
VARIABLE = "GOFER_TEST_TORCH"

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has torch."""
    found = os.environ.get(VARIABLE)
    assert found, f"{VARIABLE} names no Python with torch; `make test-torch` sets it"
    return found


@pytest.fixture
def home(home: Home) -> Home:
    """The example in the project's folder; its commands find this gofer, and use one thread each."""
    shutil.copy(EXAMPLE, home.folder)
    home.environ.update(PYTHONPATH=str(ROOT / "src"), OMP_NUM_THREADS="1")
    return home


def losses(log: str) -> list[float]:
    return [float(found) for found in re.findall(r"loss ([0-9.]+)", log)]


def weights(log: str) -> str:
    found = re.search(r"weights ([0-9a-f]{12})", log)
    assert found, log
    return found.group(1)


def check_run(home: Home, run: str, ranks: int) -> None:
    """It learned, and every rank ended with the same weights."""
    logs = [home.log(run, "--rank", str(rank)) for rank in range(ranks)]
    assert home.view(run)["state"] == "succeeded", logs
    assert losses(logs[0])[-1] < 0.6 * losses(logs[0])[0]
    assert len({weights(log) for log in logs}) == 1
    for rank, log in enumerate(logs):
        assert f"rank {rank} of {ranks} on cpu" in log
    assert (home.run_folder(run) / "outputs" / "model.pt").stat().st_size > 0


@pytest.mark.parametrize("launcher", ["spawn", "mpi"])
def test_two_nodes_of_two_processes_train_one_model(home: Home, python: str, launcher: str) -> None:
    words = ("submit", "-Q", "--wait", "-N", "2", "--procs", "2", "--launcher", launcher, python, "train.py")
    check_run(home, home.gofer(*words, status=None).out.strip(), 4)


def check_logs(home: Home, run: str, nodes: int, ranks: int) -> None:
    """The workers of a node share its log; all of them ended with the same weights."""
    log = "".join(home.log(run, "--node", str(node)) for node in range(nodes))
    assert home.view(run)["state"] == "succeeded", log
    assert all(f"rank {rank} of {ranks} on cpu" in log for rank in range(ranks)), log
    assert len(set(re.findall(r"weights ([0-9a-f]{12})", log))) == 1


def test_torchrun_inside_a_run(home: Home, python: str) -> None:
    """Once a node; on two nodes it meets by the variables that gofer fills."""
    torchrun = [python, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    alone = home.gofer("submit", "-Q", "--wait", *torchrun, "--standalone", "train.py", status=None)
    check_logs(home, alone.out.strip(), 1, 2)
    both = home.gofer("submit", "-Q", "--wait", "-N", "2", *torchrun, "train.py", status=None)
    check_logs(home, both.out.strip(), 2, 4)


def test_torchrun_as_the_launcher(home: Home, python: str) -> None:
    shape = ("-N", "2", "--procs", "2", "--launcher", "torchrun")
    done = home.gofer("submit", "-Q", "--wait", *shape, python, "train.py", status=None)
    check_logs(home, done.out.strip(), 2, 4)


def test_one_process_without_a_launcher(home: Home, python: str) -> None:
    done = subprocess.run(
        [python, "train.py"], cwd=home.folder, env=home.environ, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "rank 0 of 1 on cpu" in done.stdout
    assert losses(done.stdout)[-1] < 0.6 * losses(done.stdout)[0]


def test_mpirun_alone_without_gofer(home: Home, python: str) -> None:
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    words = ["mpirun", *root, "--oversubscribe", "-np", "2", python, "train.py"]
    done = subprocess.run(
        words, cwd=home.folder, env=home.environ, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(set(re.findall(r"weights ([0-9a-f]{12})", done.stdout))) == 1
    assert "rank 1 of 2 on cpu" in done.stdout


def test_processes_without_a_rendezvous_get_an_error_that_names_what_is_missing(
    home: Home, python: str
) -> None:
    environ = {
        **home.environ, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [python, "train.py"],
        cwd=home.folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode != 0
    assert "set MASTER_ADDR to the address of rank 0" in done.stderr
