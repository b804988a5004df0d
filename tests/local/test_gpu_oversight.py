"""A run without GPUs on a machine that has some: `submit` and every view of the run mention it."""

from __future__ import annotations

import json

import pytest
from home import Home, until

BOX = "targets: {box: {kind: local, gpus: 4}, plain: {kind: local, gpus: 0}}\ntarget: box\n"
LINE = "`box` has 4 GPUs; this run asks for none and sees none: `-n 1` asks for one"


@pytest.fixture
def box(home: Home) -> Home:
    home.configure(BOX)
    return home


def test_submit_the_end_and_q_say_that_it_saw_no_gpu(box: Home) -> None:
    done = box.gofer("submit", "--no-code", "--wait", "true")
    assert LINE in done.err
    assert "succeeded; saw no GPU" in done.err
    run = done.out.strip()
    assert "gpus       0, saw no GPU" in box.gofer("q", run).out
    assert box.view(run)["saw_no_gpu"] is True
    group = box.gofer("submit", "--no-code", "--wait", "--each", "i=1..2", "true")
    assert "succeeded: 2 ok; saw no GPU" in group.err


@pytest.mark.parametrize(
    "words", [("-n", "1"), ("-n", "0"), ("-t", "plain"), ("--dry-run", "-n", "0")], ids="_".join
)
def test_no_message_for_runs_with_gpus_and_machines_without(box: Home, words: tuple[str, ...]) -> None:
    done = box.gofer("submit", "--no-code", *(() if "--dry-run" in words else ("--wait",)), *words, "true")
    assert "GPU" not in done.err


def test_a_target_has_a_default_of_its_own(home: Home) -> None:
    home.configure("targets: {box: {kind: local, gpus: 4, default_gpus: 2}}\ntarget: box\n")
    done = home.gofer("submit", "--no-code", "--wait", "--json", "true")
    assert (json.loads(done.out)["gpus"], "GPU" in done.err) == (2, False)
    assert (
        json.loads(home.gofer("submit", "--no-code", "--wait", "--json", "-n", "1", "true").out)["gpus"] == 1
    )
    home.configure("targets: {box: {kind: local, gpus: 4, default_gpus: many}}\ntarget: box\n")
    assert "`targets.box.default_gpus`" in home.gofer("submit", "true", status=None).err


def test_why_names_it_when_cuda_is_missing(box: Home) -> None:
    script = "echo 'RuntimeError: No CUDA GPUs are available' >&2; exit 1"
    run = box.finish("sh", "-c", script)
    answer = box.gofer("why", run["id"]).out
    assert "exited with 1; it asked for no GPU and saw no GPU" in answer
    assert "gofer submit -t box -n 1" in answer
    rows = box.gofer("submit", "--no-code", "-Q", "--wait", "--each", "i=1..2", "sh", "-c", script, status=1)
    group = box.gofer("why", rows.out.strip()).out
    assert "2 runs failed: exited with 1; it asked for no GPU and saw no GPU" in group
    other = box.finish("sh", "-c", "echo 'ValueError: a number'; exit 1")
    assert "GPU" not in box.gofer("why", other["id"]).out
    asked = box.finish("-n", "1", "sh", "-c", script)
    assert "saw no GPU" not in box.gofer("why", asked["id"]).out


def test_the_json_of_a_run_has_its_memory_with_the_peak(box: Home) -> None:
    """The second reading comes after ten seconds; the first is enough for the form of it."""
    gate = box.root / "gate"
    run = box.submit(
        "python",
        "-c",
        f"import os, time\nb = bytearray(50 << 20)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.1)",
    )
    beat = box.run_folder(run) / "attempts/1/node-0/heartbeat.json"
    until(beat.exists, "a sign of life")
    (use,) = box.view(run)["usage"]
    assert use["node"] == 0 and use["rss_peak_mib"] >= use["rss_mib"] > 40 and use["gpus"] == []
    assert "(peak " in box.gofer("q", run).out
    gate.touch()
    box.wait(run)
