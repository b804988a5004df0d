"""Runs on machines over SSH: real sshd, real queues there, lines that fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.line import Fault
from clusters.ssh import SshHosts
from home import Home, until
from pythons import pythons

pytestmark = ON_SSH_HOSTS

ONE = "targets: {box: {kind: ssh, hosts: [hostb], gpus_per_node: 4}}\ntarget: box\n"


@pytest.fixture
def home(tmp_path: Path, ssh_hosts: SshHosts) -> Iterator[Home]:
    made = Home(tmp_path)
    made.environ["PATH"] = f"{ssh_hosts.bin}:{made.environ['PATH']}"
    made.configure(ONE)
    yield made


def test_a_command_runs_there_with_its_code_and_brings_back_what_it_made(home: Home) -> None:
    (home.folder / "job.sh").write_text('hostname; echo "$1"; echo 7 > "$GOFER_OUTPUT_DIR/x"; exit 3')
    done = home.gofer("submit", "--wait", "--json", "-n", "1", "bash", "job.sh", "two  words", status=3)
    run = json.loads(done.out)
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit-code", 3)
    assert home.log(run["id"]) == "hostb\ntwo  words\n"
    home.gofer("extract", run["id"], "there")
    assert (home.folder / "there/outputs/x").read_text() == "7\n"


def test_a_run_survives_the_line_and_is_followed_over_it(home: Home, ssh_hosts: SshHosts) -> None:
    run_id = home.submit("bash", "-c", "for i in $(seq 1 30); do echo $i; sleep 0.2; done")
    until(lambda: "2\n" in home.log(run_id), "the first lines")
    ssh_hosts.lines["hostb"].cut()
    assert home.log(run_id, "-f").split() == [str(number) for number in range(1, 31)]
    assert home.wait(run_id)[0]["state"] == "succeeded"


def test_abort_reaches_it(home: Home) -> None:
    run_id = home.submit("sleep", "1000")
    until(lambda: home.view(run_id)["state"] == "running", "it runs")
    home.gofer("abort", run_id)
    assert home.wait(run_id)[0]["state"] == "cancelled"


@pytest.mark.parametrize(
    "words", [("q", "{short}"), ("list", "--everywhere"), ("ledger", "rebuild")], ids=str
)
def test_a_second_laptop_finds_the_runs_that_are_kept_on_the_machine(
    home: Home, ssh_hosts: SshHosts, words: tuple[str, ...]
) -> None:
    """It has the same settings, and no store in common but that of the target."""
    run = home.finish("sh", "-c", "exit 3")["id"]
    other = Home(home.root / "another  läptop")
    other.environ["PATH"] = home.environ["PATH"]
    other.configure(ONE.replace("[hostb]", "[hosta, hostb]"))
    other.gofer(*(word.format(short=run[-6:]) for word in words))
    found = {one["id"]: one for one in json.loads(other.gofer("list", "runs", "--all", "--json").out)}
    assert (found[run]["state"], found[run]["exit_code"]) == ("failed", 3)
    assert "no run has the id or the name `aword`" in other.gofer("q", "aword", status=2).err


def test_a_machine_that_is_down_is_reported_and_its_runs_are_not_lost(
    home: Home, ssh_hosts: SshHosts
) -> None:
    run_id = home.submit("sleep", "5")
    ssh_hosts.lines["hostb"].cut()
    ssh_hosts.lines["hostb"].set(Fault("refuse"))
    shown = home.gofer("list", "runs", status=None)
    assert run_id[-6:] in shown.out
    assert "hostb" in shown.err
    ssh_hosts.lines["hostb"].clear()
    assert home.wait(run_id)[0]["state"] == "succeeded"


@pytest.fixture
def pair(home: Home, tmp_path: Path) -> Home:
    """Two machines that share a folder."""
    shared = tmp_path / "shared"
    shared.mkdir()
    home.configure(
        "target: pair\n"
        "targets: {pair: {kind: ssh, hosts: [hosta, hostb], gpus_per_node: 2, shared: true, store: both}}\n"
        f"stores: {{both: {{url: 'file://{shared}'}}}}\n"
    )
    return home


def test_a_run_over_two_machines_meets_and_ends_as_one(pair: Home) -> None:
    script = "echo $(hostname) $RANK $WORLD_SIZE $NODE_RANK $MASTER_ADDR $AZ_BATCH_HOST_LIST"
    run = pair.finish("-n", "4", "bash", "-c", script)
    assert run["state"] == "succeeded"
    lines = [pair.log(run["id"], "--rank", str(rank)).split() for rank in range(4)]
    assert [words[1:4] for words in lines] == [[str(rank), "4", str(rank // 2)] for rank in range(4)]
    hosts = [lines[0][0], lines[2][0]]
    assert sorted(hosts) == ["hosta", "hostb"]
    assert {words[4] for words in lines} == {hosts[0]}
    assert {words[5] for words in lines} == {",".join(hosts)}


def test_a_shell_on_each_machine_of_a_run(pair: Home) -> None:
    run = pair.submit("-n", "4", "bash", "-c", "echo $(hostname); exec sleep 600")

    def logs() -> list[str]:
        found = [pair.gofer("logs", run, "--rank", rank, status=None).out.strip() for rank in ("0", "2")]
        return found if all(found) else []

    hosts = until(logs, "both machines have begun")
    show = ("sh", "-c", "echo $(hostname) $RANK")
    seen = [pair.gofer("ssh", "--node", str(node), run, *show).out.split() for node in (0, 1)]
    assert seen == [[hosts[0], "0"], [hosts[1], "2"]]
    pair.gofer("abort", "--grace", "0s", run)
    pair.wait(run)


def test_a_failure_on_one_machine_ends_the_run_on_the_other(pair: Home) -> None:
    """Rank 3 fails once rank 0, on the other machine, can be told to stop."""
    up = pair.root / "up"
    script = (
        f"if [ $RANK = 3 ]; then until [ -e {up} ]; do sleep 0.05; done; exit 7; fi; "
        f"trap 'echo stopped; exit 0' TERM; [ $RANK = 0 ] && touch {up}; sleep 300 & wait"
    )
    run = pair.finish("-n", "4", "bash", "-c", script)
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit-code", 7)
    assert run["first_failure"]["rank"] == 3
    assert pair.log(run["id"], "--rank", "0") == "stopped\n"


def test_a_run_over_two_machines_is_tried_again_as_one(pair: Home) -> None:
    script = "if [ $GOFER_ATTEMPT = 1 ] && [ $RANK = 2 ]; then exit 7; fi; sleep 2; echo $GOFER_ATTEMPT"
    run = pair.finish("-n", "4", "--retries", "1", "bash", "-c", script)
    assert (run["state"], len(run["attempts"])) == ("succeeded", 2)
    assert [pair.log(run["id"], "--rank", str(rank)) for rank in (0, 3)] == ["2\n", "2\n"]


def test_two_runs_that_want_both_machines_do_not_wait_for_each_other_for_ever(pair: Home) -> None:
    first, second = (pair.submit("-n", "4", "sleep", "1") for _ in range(2))
    assert [one["state"] for one in pair.wait(first, second)] == ["succeeded", "succeeded"]


def test_runs_are_spread_over_the_machines(pair: Home) -> None:
    pair.gofer("submit", "--no-code", "-n", "2", "sleep", "20")
    second = pair.submit("-n", "2", "hostname")
    third = pair.finish("-n", "1", "hostname")
    pair.wait(second)
    shown = pair.log(second)
    assert shown in ("hosta\n", "hostb\n")
    assert third["state"] == "succeeded"
    pair.gofer("abort", "last")


def test_several_machines_need_a_folder_they_share(home: Home) -> None:
    home.configure("target: two\ntargets: {two: {kind: ssh, hosts: [hosta, hostb], gpus_per_node: 2}}\n")
    done = home.gofer("submit", "--no-code", "-n", "4", "true", status=1)
    assert "needs a folder that the machines share" in done.err
    run = home.finish("-n", "2", "hostname")
    assert home.log(run["id"]) in ("hosta\n", "hostb\n")


def test_two_queues_of_a_machine_share_its_gpus(home: Home, tmp_path: Path) -> None:
    """As two people have them: each with a folder of their own, neither knows of the other."""
    options = "kind: ssh, hosts: [hostb], gpus_per_node: 2"
    home.configure(
        f"target: ann\ntargets: {{ann: {{{options}}}, bob: {{{options}, folder: '~/.gofer-bob'}}}}\n"
    )
    flag = tmp_path / "go"
    waits = f"echo $CUDA_VISIBLE_DEVICES; while [ ! -e {flag} ]; do sleep 0.1; done"
    first = home.submit("-n", "1", "bash", "-c", waits)
    until(lambda: home.view(first)["state"] == "running", "ann's run has its GPU")
    second = home.submit("-c", "bob", "-n", "1", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert home.wait(second)[0]["state"] == "succeeded"
    assert sorted([home.log(first), home.log(second)]) == ["0\n", "1\n"]
    both = home.submit("-c", "bob", "-n", "2", "true")
    until(lambda: home.view(both)["state"] == "queued", "bob's run waits for ann's")
    flag.touch()
    assert home.wait(first, both)[1]["state"] == "succeeded"


def test_a_run_whose_machine_is_silent_for_longer_than_the_patience_is_lost(
    home: Home, ssh_hosts: SshHosts
) -> None:
    home.configure("target: box\ntargets: {box: {kind: ssh, hosts: [hostb], patience: 3s}}\n")
    run_id = home.submit("sleep", "1000")
    until(lambda: home.view(run_id)["state"] == "running", "it runs")
    ssh_hosts.lines["hostb"].cut()
    ssh_hosts.lines["hostb"].set(Fault("refuse"))

    def listed() -> bool:
        return " lost " in home.gofer("list", "runs", status=None).out

    until(listed, "it is lost")
    assert "for longer than the target's patience" in home.gofer("why", run_id, status=None).out
    ssh_hosts.lines["hostb"].clear()


def test_the_oldest_python_is_enough_there(home: Home) -> None:
    """Queue, agent, snapshot and all."""
    found = pythons("3.8")
    home.configure(f"target: box\ntargets: {{box: {{kind: ssh, hosts: [hostb], python: {found[0]}}}}}\n")
    (home.folder / "job.sh").write_text('echo "$1"; echo 7 > "$GOFER_OUTPUT_DIR/x"')
    group = home.gofer("submit", "-Q", "--each", "n=1,2", "bash", "job.sh", "{n}").out.strip()
    assert home.wait(group)[0]["counts"] == {"succeeded": 2}
    assert home.log(f"{group}-1") == "2\n"


def test_a_machine_that_is_silent_is_shown_as_of_its_last_answer(home: Home, ssh_hosts: SshHosts) -> None:
    home.configure(ONE.replace("targets: {", "targets: {here: {kind: local}, "))
    gate = home.root / "gate"
    wait = ("--no-code", "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done")
    run, near = home.submit(*wait), home.submit("-t", "here", *wait)
    until(lambda: home.view(run)["state"] == "running", "it runs")
    late = "`box` did not answer within 3 s"
    ssh_hosts.lines["hostb"].pause()
    try:
        listed = home.gofer("list", "runs", "--json")
        shown = home.gofer("q", run)
    finally:
        ssh_hosts.lines["hostb"].clear()
    assert f"warning: {late}; showing the state from " in listed.err
    found = {one["id"]: one for one in json.loads(listed.out)}
    assert (found[run]["stale"], found[run]["logs"], found[run]["state"]) == (late, None, "running")
    assert (found[near]["stale"], found[near]["state"]) == (None, "running")
    assert late in shown.err and run in shown.out
    gate.touch()
    assert [one["state"] for one in home.wait(run, near)] == ["succeeded", "succeeded"]
