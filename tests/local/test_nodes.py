"""`gofer list nodes` and `gofer target show` on this machine."""

from __future__ import annotations

import json
import os
from typing import Any

from home import Home, until

EIGHT = "targets: {eight: {kind: local, gpus: 8, gpus_per_node: 4}}"


def test_this_machine_is_one_node_with_what_is_free(home: Home) -> None:
    home.configure(EIGHT)
    (idle,) = json.loads(home.gofer("list", "nodes", "-t", "eight", "--json").out)
    cores = len(os.sched_getaffinity(0))
    assert (idle["name"], idle["state"]) == (os.uname().nodename, "free")
    assert (idle["cpus"], idle["cpus_free"], idle["gpus"], idle["gpus_free"]) == (cores, cores, 8, 8)
    assert idle["memory_mib"] > 0
    run = home.submit("-t", "eight", "-n", "3", "--single", "sh", "-c", "echo up; exec sleep 600")
    home.until_logged(run, "up")
    (mixed,) = json.loads(home.gofer("-t", "eight", "list", "nodes", "--json").out)
    assert (mixed["gpus_free"], mixed["cpus_free"]) == (5, cores - 1)
    table = home.gofer("list", "nodes", "-t", "eight", "--columns", "name,gpus").out.splitlines()
    assert [line.split() for line in table] == [["NAME", "FREE", "GPUS"], [os.uname().nodename, "5/8"]]
    shown = home.gofer("target", "show", "eight").out
    assert "gpus           5 of 8 free\n" in shown
    assert "runs           1 running, 0 queued\n" in shown
    home.gofer("abort", run)
    home.wait(run)


def test_a_column_that_is_none_is_refused(home: Home) -> None:
    done = home.gofer("list", "nodes", "--columns", "nmae", status=2)
    assert "`nmae` is not a column of nodes" in done.err
    assert "did you mean `name`?" in done.err


def test_the_nodes_of_a_run_with_their_ranks_and_ends(home: Home) -> None:
    home.configure(EIGHT)
    go = home.folder / "go"
    script = f"echo up; until [ -e {go} ]; do sleep 0.1; done; test $RANK != 5"
    run = home.submit("-t", "eight", "-n", "8", "sh", "-c", script)
    home.until_logged(run, "up")
    until(lambda: {node["state"] for node in nodes_of(home, run)} == {"running"}, "both nodes run")
    go.touch()
    home.wait(run)
    first, second = nodes_of(home, run)
    assert (first["host"], first["ranks"], first["gpus"]) == (os.uname().nodename, [0, 1, 2, 3], 4)
    assert first["state"] in ("succeeded", "cancelled")  # its ranks may still end by themselves
    assert second["state"] == "failed"
    assert first["gpu_numbers"] + second["gpu_numbers"] == [*range(8)]
    assert second["detail"] == "rank 5 exited with 1"
    assert first["started_at"] < first["ended_at"]
    lines = home.gofer("list", "nodes", run).out.splitlines()
    assert lines[0].split() == ["NODE", "HOST", "STATE", "RANKS", "GPUS", "STARTED", "ENDED", "DETAIL"]
    assert lines[2].split()[:5] == ["1", os.uname().nodename, "failed", "4-7", "4-7"]


def test_a_run_that_waits_has_nodes_that_have_not_begun(home: Home) -> None:
    home.configure(EIGHT)
    holder = home.submit("-t", "eight", "-n", "8", "--single", "sh", "-c", "echo up; exec sleep 600")
    home.until_logged(holder, "up")
    waiting = home.submit("-t", "eight", "-n", "8", "true")
    assert [(node["state"], node["host"], node["ranks"]) for node in nodes_of(home, waiting)] == [
        ("queued", "", [])
    ] * 2
    home.gofer("abort", waiting, holder)
    home.wait(holder)


def test_a_group_has_no_nodes_but_its_rows_have(home: Home) -> None:
    group = home.submit("--each", "x=1,2", "true")
    home.wait(group)
    done = home.gofer("list", "nodes", group, status=1)
    assert f"`gofer list nodes {group[-6:]}-0`" in done.err
    assert [node["state"] for node in nodes_of(home, f"{group}-0")] == ["succeeded"]


def nodes_of(home: Home, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(home.gofer("list", "nodes", run, "--json").out)
    return found
