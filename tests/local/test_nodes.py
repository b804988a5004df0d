"""`gofer list nodes` and `gofer target show` on this machine."""

from __future__ import annotations

import json
import os

from home import Home

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
