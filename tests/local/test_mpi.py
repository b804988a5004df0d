"""`launcher: mpi`: a real mpirun and MPI program, with the contract, logs and ends of every launcher."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from home import Home, until

from gofer.node import mpi

SOURCE = Path(__file__).with_name("allreduce.c")
TWO_A_NODE = "targets: {two: {kind: local, gpus: 8, gpus_per_node: 2}}"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The MPI program, compiled."""
    binary = tmp_path_factory.mktemp("mpi") / "allreduce"
    subprocess.run(["mpicc", "-o", str(binary), str(SOURCE)], check=True, timeout=100)
    return str(binary)


@pytest.fixture
def home(home: Home) -> Home:
    home.configure(TWO_A_NODE)
    return home


def logs(run: dict[str, Any]) -> dict[int, str]:
    return {log["rank"]: Path(log["path"]).read_text() for log in run["logs"] if log["rank"] is not None}


def mpi_processes(home: Home) -> list[str]:
    return [words for words in home.processes().values() if "mpirun" in words or "mpi_rank" in words]


def test_ranks_on_two_nodes_meet_and_have_the_contract_and_their_logs(home: Home, program: str) -> None:
    run = home.finish("-t", "two", "-n", "4", "--launcher", "mpi", program)
    assert run["state"] == "succeeded", logs(run)
    assert run["nodes"] == 2
    assert logs(run) == {
        rank: f"mpi rank {rank} of 4 sum 6, RANK {rank} LOCAL_RANK {rank % 2} NODE_RANK {rank // 2} "
        f"OMPI_COMM_WORLD_LOCAL_RANK {rank % 2}\n"
        for rank in range(4)
    }
    assert until(lambda: not mpi_processes(home), "mpirun is gone")


def test_one_process_is_a_world_of_its_own(home: Home, program: str) -> None:
    run = home.finish("--launcher", "mpi", program)
    assert (run["state"], logs(run)[0][:25]) == ("succeeded", "mpi rank 0 of 1 sum 0, RA")


@pytest.mark.parametrize(("how", "code"), [("exit", 5), ("abort", 7)])
def test_the_rank_that_ends_badly_is_named_with_its_code(
    home: Home, program: str, how: str, code: int
) -> None:
    run = home.finish("-t", "two", "-n", "4", "--launcher", "mpi", program, how, "2")
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit-code", code)
    failure = run["first_failure"]
    assert (failure["node"], failure["rank"], failure["exit_code"]) == (1, 2, code)
    assert until(lambda: not mpi_processes(home), "mpirun is gone")


def test_an_abort_ends_the_ranks_and_mpirun(home: Home, program: str) -> None:
    run = home.submit("-t", "two", "-n", "4", "--launcher", "mpi", program, "exit", "99")
    for rank in range(4):
        home.until_logged(run, "sum 6", rank=rank)
    assert mpi_processes(home)
    home.gofer("abort", run)
    (ended,) = home.wait(run)
    assert (ended["state"], ended["reason"]) == ("cancelled", "user")
    assert until(lambda: not mpi_processes(home), "mpirun is gone")


def test_the_time_limit_is_kept(home: Home, program: str) -> None:
    run = home.finish("--procs", "2", "--time-limit", "3s", "--launcher", "mpi", program, "exit", "99")
    assert (run["state"], run["reason"]) == ("failed", "time-limit")


def test_a_killed_mpirun_does_not_leave_ranks_behind(home: Home, program: str) -> None:
    run = home.submit("--procs", "2", "--launcher", "mpi", program, "exit", "99")
    home.until_logged(run, "sum 1")
    found = [pid for pid, words in home.processes().items() if words.startswith("mpirun ")]
    assert len(found) == 1
    os.kill(found[0], 9)
    (ended,) = home.wait(run)
    assert ended["state"] == "failed"


def test_a_killed_agent_leaves_nothing_of_mpi_behind(home: Home, program: str) -> None:
    run = home.submit("--procs", "2", "--launcher", "mpi", program, "exit", "99")
    home.until_logged(run, "sum 1")
    os.kill(home.agent(run), 9)
    (ended,) = home.wait(run)
    assert (ended["state"], ended["reason"]) == ("lost", "node-failure")
    assert until(lambda: not mpi_processes(home), "mpirun is gone")
    assert until(lambda: program not in " ".join(home.processes().values()), "the ranks are gone")


def slow_mpirun(home: Home) -> dict[str, str]:
    """An environment whose mpirun never gets anywhere."""
    folder = home.root / "bin"
    folder.mkdir()
    fake = folder / "mpirun"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{home.environ['PATH']}"}


def test_an_abort_works_while_mpirun_prepares(home: Home, program: str) -> None:
    words = ("submit", "-Q", "--no-code", "--launcher", "mpi", program)
    run = home.gofer(*words, env=slow_mpirun(home)).out.strip()
    until(lambda: [one for one in home.processes().values() if one.startswith("sleep 600")], "mpirun")
    home.gofer("abort", run)
    (ended,) = home.wait(run)
    assert (ended["state"], ended["detail"]) == ("cancelled", "stopped before the command was started")


def test_the_time_limit_is_kept_while_mpirun_prepares(home: Home, program: str) -> None:
    words = ("submit", "-Q", "--no-code", "--wait", "--time-limit", "2s", "--launcher", "mpi", program)
    run = home.gofer(*words, env=slow_mpirun(home), status=None).out.strip()
    assert home.view(run)["reason"] == "time-limit"
    assert home.view(run)["detail"] == "the time limit was reached while mpirun prepared the ranks"


def test_an_mpirun_that_fails_is_quoted(home: Home, program: str) -> None:
    folder = home.root / "bin"
    folder.mkdir()
    fake = folder / "mpirun"
    fake.write_text("#!/bin/sh\necho -------; echo 'no room on this cluster'; echo -------; exit 3\n")
    fake.chmod(0o755)
    search = f"{folder}{os.pathsep}{home.environ['PATH']}"
    words = ("submit", "-Q", "--no-code", "--wait", "--launcher", "mpi", program)
    done = home.gofer(*words, status=None, env={"PATH": search})
    run = home.view(done.out.strip())
    assert (run["state"], run["reason"]) == ("failed", "set-up")
    assert run["detail"] == "mpirun ended before the ranks were started: no room on this cluster"
    assert logs(run) == {}


def test_a_machine_without_mpirun_is_an_error_before_anything_is_sent(home: Home) -> None:
    done = home.gofer(
        "submit", "--no-code", "--launcher", "mpi", "/bin/true", status=1, env={"PATH": "/nowhere"}
    )
    assert "needs `mpirun`, which the target `local` does not have" in done.err
    assert "openmpi-bin" in done.err
    assert home.gofer("list", "runs", "--json").out.strip() == "[]"


def test_rows_of_an_array_have_an_mpirun_each(home: Home, program: str) -> None:
    group = home.submit("--each", "x=1,2", "--procs", "2", "--launcher", "mpi", program)
    home.wait(group)
    for row in range(2):
        assert "mpi rank 1 of 2 sum 1" in home.log(f"{group}-{row}", "--rank", "1")


def test_hosts_are_listed_in_order_with_their_slots() -> None:
    words = mpi.render(mpi.MpiCommand(["b2", "a1"], 4, "r1", 2), as_root=False)
    assert words[: words.index("-np") + 2] == [
        *("mpirun", "--bind-to", "none", "--map-by", "ppr:4:node:oversubscribe", "--rank-by", "slot"),
        *("--host", "b2:4,a1:4", "-np", "8"),
    ]
    assert words[-3:] == ["r1", "2", "4"]


def test_nodes_on_one_machine_are_one_host_and_root_is_allowed() -> None:
    words = mpi.render(mpi.MpiCommand(["127.0.0.1"] * 3, 2, "r1", 1), as_root=True)
    assert words[1] == "--allow-run-as-root"
    assert words[words.index("--host") + 1] == "localhost:6"
