"""A run that submits runs to its own queue, and REASON of runs that wait."""

from __future__ import annotations

import json
import os
from typing import Any

from home import Home, until

CORES = len(os.sched_getaffinity(0))


def why(home: Home, reference: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.gofer("why", "--json", reference).out)
    return found


def child_of(home: Home, parent: str, cpus: int) -> str:
    """The id of the run that a run submitted, once it is in the queue."""
    script = f"GOFER_HOME={home.path} gofer submit -Q --no-code --cpus {cpus} true; exec sleep 600"
    run = home.submit("--name", parent, "sh", "-c", script)
    return f"{run} {home.until_logged(run, '-').splitlines()[0]}"


def test_a_run_that_may_wait_for_its_own_child_is_told_so(home: Home) -> None:
    parent, child = child_of(home, "parent", CORES).split()
    name, other = parent[-6:], child[-6:]
    waits = why(home, child)
    assert waits["why"].endswith(
        f"; {name} submitted runs of this queue: if {name} waits for them, neither continues"
    )
    assert waits["next"][0] == f"gofer abort {name}"
    words = f"it submitted {other}, which waits for what {name} holds: "
    words += f"if {name} waits for {other}, neither continues"
    assert words in why(home, parent)["why"]
    assert why(home, parent)["next"][0] == f"gofer abort {other}"
    assert f"why        {words}\n" in home.gofer("q", "--no-logs", parent).out
    rows = home.gofer("list", "--columns", "short,state,reason").out.splitlines()
    assert rows[1].split(maxsplit=2) == [other, "queued", f"blocked by {name}"]
    home.gofer("abort", "-Q", "--grace", "0s", parent)
    assert home.wait(child)[0]["state"] == "succeeded"


def test_a_child_that_fits_beside_its_parent_is_no_deadlock(home: Home) -> None:
    """Another run holds what it needs, and that run ends without it."""
    holder = home.submit("--cpus", str(CORES - 1), "sh", "-c", "echo up; exec sleep 600")
    home.until_logged(holder, "up")
    parent, child = child_of(home, "parent", 1).split()
    waits = why(home, child)
    assert waits["why"].startswith("it needs 1 CPU") and "neither" not in waits["why"]
    assert why(home, parent)["why"] is None
    home.gofer("abort", "-Q", "--grace", "0s", parent, holder)
    home.wait(child, parent, holder)


def test_list_says_what_queued_runs_wait_for(home: Home) -> None:
    home.configure("targets: {four: {kind: local, gpus: 4}}\ntarget: four\n")
    holder = home.submit("-n", "3", "--single", "--time-limit", "1h", "sh", "-c", "echo up; exec sleep 600")
    home.until_logged(holder, "up")
    head = home.submit("-n", "4", "--single", "true")
    later = home.submit("-n", "1", "true")

    def rows() -> list[list[str]]:
        out = home.gofer("list", "--columns", "short,reason").out
        return [line.split(maxsplit=1) for line in out.splitlines()[1:]]

    expected = [[later[-6:], f"behind {head[-6:]}"], [head[-6:], "needs 4 GPUs"], [holder[-6:]]]
    until(lambda: rows() == expected, f"{expected}")
    home.gofer("abort", "-Q", "--grace", "0s", head, later, holder)
    home.wait(head, later, holder)
    assert [line[-1] for line in rows()] == ["user", "user", "user"]
