"""The queue of one machine: priority, first come first served, and back-fill that delays nobody."""

from __future__ import annotations

import json
import os

import pytest
from home import Home

from gofer.node.memory import limit_kib

CORES = len(os.sched_getaffinity(0))
ALL = ["--cpus", str(CORES)]


def holder(home: Home) -> str:
    """A run that takes every CPU until the file `gate` is there."""
    gate = home.root / "gate"
    run = home.submit(*ALL, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(run, "started")
    return run


def open_gate(home: Home) -> None:
    (home.root / "gate").touch()


def note(home: Home, word: str) -> list[str]:
    """A command that takes all CPUs and adds a line to the file `order`."""
    return [*ALL, "sh", "-c", f"echo {word} >> {home.root / 'order'}"]


def order(home: Home) -> list[str]:
    return (home.root / "order").read_text().split()


# -- order


def test_priority_then_first_come_first_served(home: Home) -> None:
    first = holder(home)
    wanted = [("late", "-5"), ("b", "0"), ("c", "0"), ("urgent", "9"), ("d", "0")]
    runs = [home.submit("--priority", priority, *note(home, word)) for word, priority in wanted]
    seen = [home.view(run)["state"] for run in runs]
    open_gate(home)
    assert {run["state"] for run in home.wait(first, *runs)} == {"succeeded"}
    assert seen == ["queued"] * 5
    assert order(home) == ["urgent", "b", "c", "d", "late"]


@pytest.mark.skipif(CORES < 2, reason="needs two CPUs")
def test_a_short_run_goes_ahead_of_one_that_waits_for_the_whole_machine(home: Home) -> None:
    """Only because it ends, by its limit, before the one that holds a CPU does by its own."""
    gate = home.root / "gate"
    first = home.submit("--time-limit", "1h", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(first, "started")
    big = home.submit(*note(home, "big"))
    long = home.submit("--time-limit", "2h", "sh", "-c", f"echo long >> {home.root / 'order'}")
    short = home.submit("--time-limit", "1m", "sh", "-c", f"echo short >> {home.root / 'order'}")
    assert home.wait(short)[0]["state"] == "succeeded"
    assert [home.view(run)["state"] for run in (big, long)] == ["queued", "queued"]
    open_gate(home)
    home.wait(first, big, long)
    assert order(home) == ["short", "big", "long"]


def test_a_run_for_more_cpus_than_there_are_is_refused(home: Home) -> None:
    done = home.gofer("submit", "--no-code", "--cpus", str(CORES + 1), "true", status=1)
    assert done.err.startswith(
        f"error: the job asks for {CORES + 1} CPU cores, but the target `local` has {CORES}\n"
    )


# -- memory


def test_runs_that_ask_for_memory_share_what_the_machine_has(home: Home) -> None:
    gate = home.root / "gate"
    most = f"{limit_kib() * 2 // 3}KiB"
    first = home.submit("--memory", most, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(first, "started")
    second = home.submit("--memory", most, "true")
    why = json.loads(home.gofer("why", "--json", second).out)["why"]
    assert " of memory (" in why and f" free); held by {first[-6:]} (" in why
    assert [run["state"] for run in home.wait(home.submit("true"))] == ["succeeded"]
    gate.touch()
    assert [run["state"] for run in home.wait(second)] == ["succeeded"]


def test_more_memory_than_the_machine_has_and_gpus_of_another_type_are_refused(home: Home) -> None:
    (home.folder / "code.py").touch()
    done = home.gofer("submit", "--memory", "900T", "true", status=1)
    assert "the job asks for 818.5 TiB of memory, but the target `local` has" in done.err
    assert "code:" not in done.err and home.gofer("list", "runs", "--json").out.strip() in ("", "[]")
    home.configure("targets: {two: {kind: local, gpus: 2}}\njob: {gpu_type: a100}")
    done = home.gofer("submit", "-t", "two", "-n", "1", "true", status=1)
    assert "the job asks for GPUs of the type `a100`, but those of the target `two` are not named" in done.err
    done = home.gofer("submit", "-t", "two", "--gpu-type", "a100", "true")
    assert "`--gpu-type a100` has no effect on a run without GPUs" in done.err


@pytest.mark.parametrize("size", ["many", "-1G", "64X", ""])
def test_a_size_that_is_none_is_refused(home: Home, size: str) -> None:
    assert "`memory`" in home.gofer("submit", f"--memory={size}", "true", status=2).err
