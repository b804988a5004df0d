"""Runs that wait for other runs: `gofer submit --after RUN`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from home import Home


def gated(home: Home, end: str = "exit 0", *options: str) -> tuple[str, Path]:
    """A run that ends with `end` once its gate, a file, is there."""
    gate = home.root / f"gate{len(list(home.root.glob('gate*')))}"
    run = home.submit("--cpus", "1", *options, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done; {end}")
    home.until_event(run, "started")
    return run, gate


def why(home: Home, run: str) -> Any:
    return json.loads(home.gofer("why", "--json", run).out)["why"]


def ended(home: Home, run: str) -> tuple[str, str | None, str | None]:
    (done,) = home.wait(run)
    return done["state"], done["reason"], done["why"]


def test_a_run_starts_when_the_other_has_succeeded(home: Home) -> None:
    first, gate = gated(home, "echo made > $GOFER_OUTPUT_DIR/file")
    other = home.run_folder(first) / "outputs" / "file"
    second = home.submit("--after", first[-6:], "cat", str(other))
    assert why(home, second) == f"it waits for {first[-6:]} to succeed (it is running)"
    # A run that waits for another one delays nobody, and is not ahead of others.
    assert ended(home, home.submit("true"))[0] == "succeeded"
    assert home.view(second)["state"] == "queued"
    gate.touch()
    assert ended(home, second)[0] == "succeeded"
    assert home.log(second) == "made\n"


@pytest.mark.parametrize(
    ("end", "suffix", "expected"),
    [
        ("exit 3", "", ("cancelled", "dependency", "after {}: it failed")),
        ("exit 3", ":ok", ("cancelled", "dependency", "after {}: it failed")),
        ("exit 3", ":any", ("succeeded", None, None)),
    ],
)
def test_what_becomes_of_a_run_when_the_other_fails(
    home: Home, end: str, suffix: str, expected: tuple[str, str | None, str | None]
) -> None:
    first, gate = gated(home, end, "--name", "prepare")
    second = home.submit("--after", f"prepare{suffix}", "true")
    gate.touch()
    state, reason, words = expected
    assert ended(home, second) == (state, reason, words and words.format(first[-6:]))


def test_an_aborted_run_cancels_a_chain_and_aborting_a_waiting_run_leaves_the_other(home: Home) -> None:
    first, gate = gated(home)
    second = home.submit("--after", first, "true")
    third = home.submit("--after", second, "true")
    last = home.submit("--after", f"{first}:any", "--after", f"{third}:any", "true")
    aborted = home.submit("--after", first, "true")
    home.gofer("abort", aborted)
    assert ended(home, aborted) == ("cancelled", "user", "aborted before it was started")
    home.gofer("abort", first)
    assert ended(home, second) == ("cancelled", "dependency", f"after {first[-6:]}: it was cancelled")
    assert ended(home, third) == ("cancelled", "dependency", f"after {second[-6:]}: it was cancelled")
    assert ended(home, last)[0] == "succeeded"
    assert not gate.exists()


def test_an_array_waits_for_an_array(home: Home) -> None:
    gate = home.root / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.05; done; exit {{x}}"
    first = home.submit("--each", "x=0,1", "sh", "-c", script)
    ok = home.submit("--after", first, "--each", "y=1,2", "echo", "{y}")
    row = home.submit("--after", f"{first}-0", "true")
    late = home.submit("--after", f"{first}:any", "--each", "y=1,2", "echo", "{y}")
    gate.touch()
    assert home.wait(ok)[0]["counts"] == {"cancelled": 2}
    assert home.wait(late)[0]["counts"] == {"succeeded": 2}
    assert ended(home, row)[0] == "succeeded"


def test_a_run_that_has_ended_is_not_waited_for(home: Home) -> None:
    good, bad = home.submit("true"), home.submit("false")
    home.wait(good)
    home.wait(bad)
    done = home.gofer("submit", "--wait", "--after", good, "true")
    assert f"{good[-6:]} has ended already (succeeded)" in done.err
    done = home.gofer("submit", "--after", bad, "true", status=1)
    assert f"after {bad[-6:]}: it failed" in done.err and f"`--after {bad[-6:]}:any`" in done.err
    home.gofer("submit", "--wait", "--after", f"{bad}:any", "true")


def test_references_that_cannot_be_waited_for(home: Home) -> None:
    home.configure("targets: {two: {kind: local}, three: {kind: local}}")
    run = home.submit("-t", "two", "sleep", "600")
    done = home.gofer("submit", "-t", "three", "--after", run, "true", status=1)
    assert f"{run[-6:]} is a run of the target `two`, and a run of the target `three` waits only" in done.err
    assert "nobody" in home.gofer("submit", "--after", "nobody", "true", status=2).err
    home.gofer("abort", "--grace", "0s", run)


def test_a_kind_that_cannot_hold_runs_refuses(home: Home) -> None:
    where = "subscription_id: s, resource_group: g, workspace: w, compute: c, image: i"
    home.configure(f"targets: {{aml: {{kind: azureml, {where}}}}}")
    done = home.gofer("submit", "-t", "aml", "--after", "last", "true", status=1)
    assert "the target `aml` cannot hold a run until another one has ended" in done.err


def test_a_repeated_run_waits_only_for_what_has_not_ended(home: Home) -> None:
    first, gate = gated(home, "exit 1")
    second = home.submit("--after", first, "echo", "late")
    again = home.gofer("resubmit", "-Q", second).out.strip()
    assert ended(home, second)[0] == "cancelled"
    assert why(home, again) == f"it waits for {first[-6:]} to succeed (it is running)"
    gate.touch()
    assert ended(home, again)[1] == "dependency"
    third = home.gofer("resubmit", "-Q", again).out.strip()
    assert ended(home, third)[0] == "succeeded"
