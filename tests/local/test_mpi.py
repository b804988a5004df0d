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
def desk(home: Home) -> Home:
    home.configure(TWO_A_NODE)
    return home


def logs(run: dict[str, Any]) -> dict[int, str]:
    return {log["rank"]: Path(log["path"]).read_text() for log in run["logs"] if log["rank"] is not None}


def mpi_processes(home: Home) -> list[str]:
    return [words for words in home.processes().values() if "mpirun" in words or "mpi_rank" in words]


def test_ranks_on_two_nodes_meet_and_have_the_contract_and_their_logs(desk: Home, program: str) -> None:
    run = desk.finish("-t", "two", "-n", "4", "--launcher", "mpi", program)
    assert run["state"] == "succeeded", logs(run)
    assert run["nodes"] == 2
    assert logs(run) == {
        rank: f"mpi rank {rank} of 4 sum 6, RANK {rank} LOCAL_RANK {rank % 2} NODE_RANK {rank // 2} "
        f"OMPI_COMM_WORLD_LOCAL_RANK {rank % 2}\n"
        for rank in range(4)
    }
    assert until(lambda: not mpi_processes(desk), "mpirun is gone")


def test_one_process_is_a_world_of_its_own(desk: Home, program: str) -> None:
    run = desk.finish("--launcher", "mpi", program)
    assert (run["state"], logs(run)[0][:25]) == ("succeeded", "mpi rank 0 of 1 sum 0, RA")


@pytest.mark.parametrize(("how", "code"), [("exit", 5), ("abort", 7)])
def test_the_rank_that_ends_badly_is_named_with_its_code(
    desk: Home, program: str, how: str, code: int
) -> None:
    run = desk.finish("-t", "two", "-n", "4", "--launcher", "mpi", program, how, "2")
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit-code", code)
    failure = run["first_failure"]
    assert (failure["node"], failure["rank"], failure["exit_code"]) == (1, 2, code)
    assert until(lambda: not mpi_processes(desk), "mpirun is gone")


def test_an_abort_ends_the_ranks_and_mpirun(desk: Home, program: str) -> None:
    run = desk.submit("-t", "two", "-n", "4", "--launcher", "mpi", program, "exit", "99")
    for rank in range(4):
        desk.until_logged(run, "sum 6", rank=rank)
    assert mpi_processes(desk)
    desk.gofer("abort", run)
    (ended,) = desk.wait(run)
    assert (ended["state"], ended["reason"]) == ("cancelled", "user")
    assert until(lambda: not mpi_processes(desk), "mpirun is gone")


def test_the_time_limit_is_kept(desk: Home, program: str) -> None:
    run = desk.finish("--procs", "2", "--time-limit", "3s", "--launcher", "mpi", program, "exit", "99")
    assert (run["state"], run["reason"]) == ("failed", "time-limit")


def test_a_killed_mpirun_does_not_leave_ranks_behind(desk: Home, program: str) -> None:
    run = desk.submit("--procs", "2", "--launcher", "mpi", program, "exit", "99")
    desk.until_logged(run, "sum 1")
    found = [pid for pid, words in desk.processes().items() if words.startswith("mpirun ")]
    assert len(found) == 1
    os.kill(found[0], 9)
    (ended,) = desk.wait(run)
    assert ended["state"] == "failed"


def test_a_killed_agent_leaves_nothing_of_mpi_behind(desk: Home, program: str) -> None:
    run = desk.submit("--procs", "2", "--launcher", "mpi", program, "exit", "99")
    desk.until_logged(run, "sum 1")
    os.kill(desk.agent(run), 9)
    (ended,) = desk.wait(run)
    assert (ended["state"], ended["reason"]) == ("lost", "node-failure")
    assert until(lambda: not mpi_processes(desk), "mpirun is gone")
    assert until(lambda: program not in " ".join(desk.processes().values()), "the ranks are gone")


def slow_mpirun(home: Home) -> dict[str, str]:
    """An environment whose mpirun never gets anywhere."""
    folder = home.root / "bin"
    folder.mkdir()
    fake = folder / "mpirun"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{home.environ['PATH']}"}


def test_an_abort_is_heard_while_mpirun_prepares(desk: Home, program: str) -> None:
    words = ("submit", "-Q", "--no-code", "--launcher", "mpi", program)
    run = desk.gofer(*words, env=slow_mpirun(desk)).out.strip()
    until(lambda: [one for one in desk.processes().values() if one.startswith("sleep 600")], "mpirun")
    desk.gofer("abort", run)
    (ended,) = desk.wait(run)
    assert (ended["state"], ended["detail"]) == ("cancelled", "stopped before the command was started")


def test_the_time_limit_is_kept_while_mpirun_prepares(desk: Home, program: str) -> None:
    words = ("submit", "-Q", "--no-code", "--wait", "--time-limit", "2s", "--launcher", "mpi", program)
    run = desk.gofer(*words, env=slow_mpirun(desk), status=None).out.strip()
    assert desk.view(run)["reason"] == "time-limit"
    assert desk.view(run)["detail"] == "the time limit was reached while mpirun prepared the ranks"


def test_an_mpirun_that_fails_is_quoted(desk: Home, program: str) -> None:
    folder = desk.root / "bin"
    folder.mkdir()
    fake = folder / "mpirun"
    fake.write_text("#!/bin/sh\necho -------; echo 'no room on this cluster'; echo -------; exit 3\n")
    fake.chmod(0o755)
    search = f"{folder}{os.pathsep}{desk.environ['PATH']}"
    words = ("submit", "-Q", "--no-code", "--wait", "--launcher", "mpi", program)
    done = desk.gofer(*words, status=None, env={"PATH": search})
    run = desk.view(done.out.strip())
    assert (run["state"], run["reason"]) == ("failed", "set-up")
    assert run["detail"] == "mpirun ended before the ranks were started: no room on this cluster"
    assert logs(run) == {}


def test_a_machine_without_mpirun_is_told_before_anything_is_sent(desk: Home) -> None:
    done = desk.gofer(
        "submit", "--no-code", "--launcher", "mpi", "/bin/true", status=1, env={"PATH": "/nowhere"}
    )
    assert "needs `mpirun`, which the target `local` does not have" in done.err
    assert "openmpi-bin" in done.err
    assert desk.gofer("list", "runs", "--json").out.strip() == "[]"


def test_rows_of_an_array_have_an_mpirun_each(desk: Home, program: str) -> None:
    group = desk.submit("--each", "x=1,2", "--procs", "2", "--launcher", "mpi", program)
    desk.wait(group)
    for row in range(2):
        assert "mpi rank 1 of 2 sum 1" in desk.log(f"{group}-{row}", "--rank", "1")


def test_hosts_are_named_with_their_room_in_order() -> None:
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
