"""`why`, `ssh`, `list nodes`, `target show` and `submit ssh` on a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from clusters.fixtures import ON_SLURM
from clusters.fixtures import slurm as slurm
from clusters.fixtures import slurm_site as slurm_site
from clusters.slurm import Slurm
from home import until
from slurm.slurm_home import SlurmHome
from terminal import Terminal

pytestmark = ON_SLURM

HOLD = ("sh", "-c", "echo up; sleep 300")


@pytest.fixture
def home(tmp_path: Path, slurm: Slurm) -> SlurmHome:
    return SlurmHome(tmp_path, slurm)


def held(home: SlurmHome, *words: str) -> str:
    run = home.submit(*words, *HOLD)
    home.until_logged(run, "up")
    return run


def stop(home: SlurmHome, *runs: str) -> None:
    home.gofer("abort", "-Q", "--grace", "0s", *runs)
    home.wait(*runs)


def test_a_pending_run_is_explained_in_plain_words(home: SlurmHome) -> None:
    holders = [held(home, "-n", "12", "--single")]
    waiting = home.submit("-n", "8", "true")

    until(
        lambda: "waits: the nodes or GPUs that it needs are in use" in home.gofer("why", waiting).out,
        "Slurm's reason in words",
    )
    text = home.gofer("why", waiting).out
    assert text.startswith(f"{waiting[-6:]} waits: ")
    assert f"gofer abort {waiting[-6:]}" in text

    def listed() -> list[str]:
        return home.gofer("list", "--columns", "short,state,reason").out.splitlines()[1].split()

    rows = [[waiting[-6:], "queued", reason] for reason in ("Resources", "Priority")]
    until(lambda: listed() in rows, f"one of {rows}")
    stop(home, *holders, waiting)


@pytest.mark.parametrize("verb", [("wait",), ("logs", "-f"), ("monitor",)], ids=lambda words: words[0])
def test_a_run_that_never_starts_is_said_to(home: SlurmHome, verb: tuple[str, ...]) -> None:
    home.target("partition: short")
    run = home.submit("-n", "4", "--time-limit", "10m", "true")
    with home.start(*verb, run) as process:
        assert process.stderr is not None
        while "it never starts (PartitionTimeLimit)" not in (line := process.stderr.readline().decode()):
            assert line, "it ended without the reason"
        assert line.startswith(f"{run[-6:]} queued ")
        stop(home, run)
        process.communicate(timeout=120)


def test_a_dead_run_names_its_first_failure(home: SlurmHome) -> None:
    script = "if [ $RANK = 5 ]; then echo last words; exit 9; fi; sleep 300"
    done = home.finish("-n", "8", "sh", "-c", script)
    text = home.gofer("why", done["id"]).out
    assert text.startswith(f"{done['short_id']} failed: rank 5 exited with 9\n")
    assert "rank 5 of 8, on node 1\n" in text
    assert "  last words\n" in text


def test_a_command_lands_inside_the_allocation_word_for_word(home: SlurmHome) -> None:
    run = held(home, "-n", "2")
    program = (
        "import json as j, os, sys; print(j.dumps([os.uname()[1], os.environ['SLURM_JOB_ID'], sys.argv[1:]]))"
    )
    words = ["$HOME  x", "a'b", "*", "--help"]
    host, job, told = json.loads(home.gofer("ssh", run, "python3", "-c", program, *words).out)
    assert host in home.slurm.nodes
    assert (job, told) == (home.job(run), words)
    assert home.gofer("ssh", run, "sh", "-c", "exit 7", status=7).out == ""
    stop(home, run)


def test_a_command_beside_a_run_has_its_folder_and_environment(home: SlurmHome) -> None:
    (home.folder / "sub").mkdir()
    (home.folder / "sub" / "data.txt").write_text("as submitted\n")
    words = ["-n", "4", "-e", "TOKEN=dummy-not-a-secret", *HOLD]
    run = home.gofer("submit", "-Q", *words, cwd=home.folder / "sub").out.strip()
    home.until_logged(run, "up")
    (home.folder / "sub" / "data.txt").write_text("edited\n")
    shown = "echo $RANK/$WORLD_SIZE/$GOFER_RUN_ID/$TOKEN; cat data.txt"
    expected = f"0/4/{run}/dummy-not-a-secret\nas submitted\n"
    assert home.gofer("ssh", run, "sh", "-c", shown).out == expected
    stop(home, run)


def test_the_lines_before_python_come_before_a_shell_too(home: SlurmHome) -> None:
    """The target's Python is found by its prelude alone, which also prints."""
    tools = home.root / "my tools"
    tools.mkdir()
    (tools / "python-of-the-site").symlink_to("/usr/bin/python3")
    prelude = f"echo ready; PATH='{tools}':$PATH"
    home.target(f"python: python-of-the-site, prelude: {json.dumps(prelude)}")
    run = held(home)
    assert home.gofer("ssh", run, "sh", "-c", "echo $GOFER_RUN_ID").out == f"{run}\n"
    stop(home, run)


def test_a_shell_without_a_process_of_the_run_is_still_inside_the_allocation(home: SlurmHome) -> None:
    script = "echo up; [ $GOFER_NODE_RANK = 1 ] || sleep 300"
    run = home.submit("-N", "2", "sh", "-c", script)
    home.until_logged(run, "up", rank=1)

    def seen_on_node_1() -> bool:
        done = home.gofer("ssh", "--node", "1", run, "sh", "-c", "echo $SLURM_JOB_ID")
        assert done.out == f"{home.job(run)}\n"
        return f"{run} has no process on this node now" in done.err

    until(seen_on_node_1, "the process on node 1 has ended")
    stop(home, run)


def test_a_shell_on_each_node_of_an_allocation(home: SlurmHome) -> None:
    run = home.submit("-n", "8", "sh", "-c", "echo up $SLURMD_NODENAME; exec sleep 600")
    for rank in (0, 4):
        home.until_logged(run, "up", rank=rank)
    hosts = [home.log(run, "--rank", str(rank)).split()[1] for rank in (0, 4)]
    show = ("sh", "-c", "echo $SLURMD_NODENAME")
    assert [home.gofer("ssh", "--node", str(node), run, *show).out.strip() for node in (0, 1)] == hosts
    assert len(set(hosts)) == 2
    stop(home, run)


def test_a_shell_on_a_terminal_is_inside_the_allocation(home: SlurmHome) -> None:
    run = held(home)
    with Terminal(home.argv("ssh", run), cwd=home.folder, env=home.environ) as shell:
        shell.until("the run continues")
        shell.type("[ -t 0 ] && echo job=$SLURM_JOB_ID.\n")
        shell.until(f"job={home.job(run)}.")
        shell.type("exit 5\n")
        assert shell.end() == 5
    until(lambda: home.view(run)["state"] == "running", "the run continues")
    stop(home, run)


def test_submit_ssh_holds_an_allocation(home: SlurmHome) -> None:
    done = home.gofer("-n", "4", "submit", "--wait", "ssh")
    run = home.view(done.out.strip())
    assert (run["state"], run["gpus"], run["procs"]) == ("running", 4, 1)
    assert f"`gofer ssh {run['short_id']}` enters it" in done.err
    stop(home, run["id"])


def test_nodes_and_what_is_free(home: SlurmHome) -> None:
    run = held(home, "-n", "3", "--single")
    found = json.loads(home.gofer("list", "nodes", "--json").out)
    assert [node["name"] for node in found] == sorted(home.slurm.nodes)
    assert sorted((node["gpus"], node["gpus_free"]) for node in found) == [(4, 1), (4, 4), (4, 4)]
    shown = home.gofer("target", "show", "lab").out
    assert "9 of 12 free" in shown
    stop(home, run)
