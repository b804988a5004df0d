"""`gofer ssh` and `gofer submit ssh`: a shell beside a run on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pytest
from home import Home, until
from terminal import Terminal

HOLD = ("sh", "-c", "echo up; exec sleep 600")
SHOW = ("python", "-c", "import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))")


def terminal(home: Home, *words: str) -> Terminal:
    return Terminal(home.argv(*words), cwd=home.folder, env={**home.environ, "SHELL": "/bin/bash"})


@pytest.fixture
def held(home: Home) -> Iterator[Home]:
    """A home whose last run holds two GPUs, with a secret in its environment."""
    home.configure("targets: {big: {kind: local, gpus: 4}}")
    words = ("submit", "-Q", "-t", "big", "-n", "2", "--tag", "a=b", "-e", "TOKEN=${env:DUMMY_TOKEN}", *HOLD)
    run = home.gofer(*words, env={"DUMMY_TOKEN": "dummy-not-a-secret"}).out.strip()
    for rank in range(2):
        home.until_logged(run, "up", rank=rank)
    yield home
    home.gofer("abort", "--grace", "0s", run, status=None)
    home.wait(run)


def test_a_command_finds_the_folder_and_the_environment_of_rank_0(held: Home) -> None:
    (held.folder / "later.txt").touch()
    folder, found = json.loads(held.gofer("ssh", "last", *SHOW).out)
    run = held.view("last")["id"]
    assert folder == found["PWD"]
    assert sorted(os.listdir(folder)) == ["gofer.yaml"]
    wanted = {
        "RANK": "0", "WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "0,1", "GOFER_RUN_ID": run,
        "GOFER_TAGS": "a=b", "GOFER_TARGET": "big", "TOKEN": "dummy-not-a-secret",
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


def test_a_node_by_its_number(home: Home) -> None:
    home.configure("targets: {big: {kind: local, gpus: 4, gpus_per_node: 2}}")
    run = home.submit("-t", "big", "-n", "4", *HOLD)
    for rank in range(4):
        home.until_logged(run, "up", rank=rank)
    ranks = [json.loads(home.gofer("ssh", "--node", str(node), run, *SHOW).out)[1]["RANK"] for node in (0, 1)]
    assert ranks == ["0", "2"]
    refused = home.gofer("ssh", "--node", "2", run, "true", status=2).err
    assert "has no node 2" in refused and "2 nodes: 0 to 1" in refused
    assert "-1 is not in the range" in home.gofer("ssh", "--node", "-1", run, "true", status=2).err
    home.gofer("abort", "--grace", "0s", run)
    home.wait(run)


@pytest.mark.parametrize(
    "words", [["$HOME  x", "a'b", ""], ["*", "; exit 9", "\n"], ["--help", "-t", "--"], ["ünï", "\\n"]]
)
def test_words_arrive_as_they_were_typed(held: Home, words: list[str]) -> None:
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert json.loads(held.gofer("ssh", "last", sys.executable, "-c", program, *words).out) == words
    assert json.loads(held.gofer("ssh", "last", "--", sys.executable, "-c", program, *words).out) == words


def test_the_exit_status_is_the_commands_own(held: Home) -> None:
    assert held.gofer("ssh", "last", "sh", "-c", "exit 7", status=7).err == ""
    done = held.gofer("ssh", "last", "no such program", status=127)
    assert "error: cannot run `no such program` in the run: no such file or directory" in done.err
    assert "hint: " in done.err


def test_a_shell_without_a_terminal_reads_its_commands(held: Home) -> None:
    import subprocess

    done = subprocess.run(
        held.argv("ssh", "last"), cwd=held.folder, env=held.environ, input=b"echo rank $RANK; exit 3\n",
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, b"rank 0\n", b"")


def test_a_shell_on_a_terminal_is_interactive_and_leaves_the_run_alone(held: Home) -> None:
    with terminal(held, "ssh", "last") as shell:
        assert "`exit` leaves, and the run continues" in shell.until("the run continues")
        shell.type("[ -t 0 ] && echo rank=$RANK.\n")
        shell.until("rank=0.")
        shell.type("exit 5\n")
        assert shell.end() == 5
    assert held.view("last")["state"] == "running"


def test_a_shell_on_a_terminal_reads_the_start_up_file_of_its_own_home(held: Home) -> None:
    (held.root / "user" / ".bashrc").write_text("MINE=dummy\n")
    with terminal(held, "ssh", "last") as shell:
        shell.type("echo mine=$MINE.\nexit\n")
        shell.until("mine=dummy.")
        assert shell.end() == 0


@pytest.mark.root
def test_a_shell_ends_with_its_run(held: Home) -> None:
    with terminal(held, "ssh", "last") as shell:
        shell.type("echo shell-is-''up\n")
        shell.until("shell-is-up")
        held.gofer("abort", "last")
        assert shell.end() == -9


def test_secrets_are_not_shown(held: Home) -> None:
    with terminal(held, "ssh", "last") as shell:
        shell.until("the run continues")
        shell.type("exit\n")
        shell.end()
        assert "dummy-not-a-secret" not in shell.shown
    assert not [words for words in held.processes().values() if "dummy-not-a-secret" in words]


def test_a_run_that_has_ended_has_no_shell(home: Home) -> None:
    home.finish("true")
    done = home.gofer("ssh", "last", "true", status=1)
    assert "is no longer running: it succeeded" in done.err
    assert "gofer resubmit" in done.err


def test_a_run_that_waits_has_no_shell_yet(held: Home) -> None:
    waiting = held.submit("-t", "big", "-n", "4", "true")
    done = held.gofer("ssh", waiting, status=1)
    assert "does not run yet: it is queued" in done.err
    assert "gofer why" in done.err
    held.gofer("abort", waiting)


def test_a_group_has_no_shell(home: Home) -> None:
    group = home.submit("--each", "x=1,2", "true")
    done = home.gofer("ssh", group, status=2)
    assert "is a group of 2 runs" in done.err
    home.wait(group)


def test_submit_ssh_holds_gpus_until_it_is_stopped(home: Home) -> None:
    home.configure("targets: {big: {kind: local, gpus: 8}}")
    done = home.gofer("-t", "big", "-n", "8", "submit", "--wait", "ssh")
    run = home.view(done.out.strip())
    assert (run["state"], run["gpus"], run["procs"], run["name"]) == ("running", 8, 1, "ssh")
    assert "asks for 8 GPUs on `big` for at most 8h00m" in done.err
    assert f"`gofer ssh {run['short_id']}` enters it" in done.err
    devices = home.gofer("ssh", run["id"], "sh", "-c", "echo $CUDA_VISIBLE_DEVICES ${RANK-none}").out
    assert devices == "0,1,2,3,4,5,6,7 none\n"
    home.gofer("abort", run["id"])
    assert home.wait(run["id"])[0]["state"] == "cancelled"


def test_submit_ssh_without_a_terminal_returns_at_once_and_says_how_to_enter(home: Home) -> None:
    done = home.gofer("submit", "--no-code", "--time-limit", "90m", "ssh")
    name = done.out.strip().rpartition("-")[2]
    assert f"`gofer ssh {name}` enters it once it runs" in done.err
    assert "for at most 1h30m" in done.err
    home.gofer("abort", name)
    home.wait(name)


def test_submit_ssh_keeps_a_limit_of_the_settings(home: Home) -> None:
    home.configure("job: {time_limit: 2h}")
    assert json.loads(home.gofer("submit", "--dry-run", "ssh").out)["time_limit_s"] == 7200.0


def test_submit_ssh_on_a_terminal_enters_once_it_runs(home: Home) -> None:
    home.configure("targets: {big: {kind: local, gpus: 2}}")
    blocker = home.submit("-t", "big", "-n", "2", "sleep", "600")
    with terminal(home, "-t", "big", "-n", "1", "submit", "ssh") as shell:
        shell.until("it needs 1 GPU (0 of 2 free)")
        home.gofer("abort", blocker)
        shell.until("`exit` leaves, and the run continues")
        shell.type("echo dev=$CUDA_VISIBLE_DEVICES.\nexit\n")
        shell.until("dev=0.")
        assert shell.end() == 0
    assert home.view("last")["state"] == "running"
    home.gofer("abort", "last", "-Q")
    until(lambda: home.view("last")["state"] == "cancelled", "the end")


def test_ssh_with_a_host_is_a_command_like_any_other(home: Home) -> None:
    body = json.loads(home.gofer("submit", "--dry-run", "--no-code", "ssh", "host").out)
    assert body["command"] == ["ssh", "host"]


@pytest.mark.parametrize("option", [["--each", "x=1"], ["-f"]])
def test_submit_ssh_refuses_what_means_nothing_to_it(home: Home, option: list[str]) -> None:
    done = home.gofer("submit", *option, "ssh", status=2)
    assert "runs no command" in done.err
