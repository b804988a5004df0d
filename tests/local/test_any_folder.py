"""Runs from other folders than their own, and from another home on the same store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from home import Home, until


def test_last_is_the_newest_run_of_this_project(home: Home, tmp_path: Path) -> None:
    one, two, third = (tmp_path / name for name in ("x 1", "x2", "täglich"))
    for folder in (one, two, third):
        folder.mkdir()
        (folder / "gofer.yaml").touch()
    (one / "sub").mkdir()
    hold = ("submit", "-Q", "--no-code", "sleep", "600")
    first = home.gofer(*hold, cwd=one).out.strip()
    second = home.gofer(*hold, cwd=two).out.strip()
    assert home.gofer("abort", "last", "--grace", "0s", cwd=one / "sub").out == f"{first} cancelled\n"
    assert home.view(second)["state"] in ("queued", "starting", "running")
    for acting in (("abort", "last"), ("resubmit", "last"), ("ssh", "last"), ("tag", "last", "x=1")):
        refused = home.gofer(*acting, cwd=third, status=2)
        assert "no run was submitted from" in refused.err
        assert first in refused.err and second in refused.err
    for verb in ("q", "why", "logs", "tag"):
        shown = home.gofer(verb, "last", cwd=third, status=None)
        assert f"the newest of all is {second}" in shown.err, shown
        assert f"from `{two}`" in shown.err
    assert home.view(second)["state"] in ("queued", "starting", "running")
    assert "the newest of all" not in home.gofer("q", "last", cwd=two).err
    home.gofer("abort", "last", "--grace", "0s", cwd=two)


def test_runs_are_named_by_parts_names_and_the_way_back(home: Home, tmp_path: Path) -> None:
    away = tmp_path / "away from here"
    away.mkdir()
    (away / "gofer.yaml").touch()
    far = home.gofer("submit", "-Q", "--name", "twice", "echo", "far", cwd=away).out.strip()
    old, new = (home.submit("--name", "twice", "echo", word) for word in ("old", "new"))
    rows = home.submit("--name", "rows", "--each", "i=1,2", "echo", "row {i}")
    home.wait(far, old, new, rows)
    assert home.log("last~1") == "new\n"
    assert home.log("last~2") == "old\n"
    assert home.log(new[-6:-2]) == "new\n" and home.log(new[-4:]) == "new\n"
    assert home.log("rows-1") == "row 2\n" == home.log(f"{rows[-6:-2]}-1")
    shown = home.gofer("logs", "twice")
    assert shown.out == "new\n"
    assert f"`twice` is the name of 2 runs; the newest is {new[-6:]}, succeeded" in shown.err
    # From another project, its only run of this name is meant.
    assert home.gofer("logs", "twice", cwd=away) == (0, "far\n", "")
    for acting in (("abort", "twice"), ("resubmit", "twice"), ("ssh", "twice"), ("tag", "twice", "x=1")):
        refused = home.gofer(*acting, status=2)
        assert "`twice` is the name of 2 runs" in refused.err
        assert new[-6:] in refused.err and old[-6:] in refused.err and far[-6:] not in refused.err
    assert "fewer than 4 runs were submitted from" in home.gofer("logs", "last~3", status=2).err


def test_logs_and_why_without_a_run_show_the_last(home: Home) -> None:
    assert "no run has been submitted yet" in home.gofer("logs", status=2).err
    run = home.finish("echo", "a  b")["id"]
    for verb, words in (("logs", "a  b"), ("why", run[-6:])):
        shown = home.gofer(verb)
        assert words in shown.out
        assert shown.err == f"{run[-6:]} is the newest run: echo 'a  b'\n"
    elsewhere = home.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "gofer.yaml").touch()
    (said,) = home.gofer("logs", cwd=elsewhere).err.splitlines()
    assert f"the newest of all is {run}" in said


def test_a_run_of_another_home_is_not_reported_as_stopped(home: Home, tmp_path: Path) -> None:
    store = tmp_path / "store"
    text = f"targets: {{local: {{kind: local, store: fs}}}}\nstores: {{fs: {{url: 'file://{store}'}}}}\n"
    store.mkdir()
    other = Home(tmp_path / "two")
    for each in (home, other):
        each.configure(text)
    run = home.submit("sleep", "600")
    rows = home.submit("--each", "a=1,2", "sleep", "{a}00")
    until(lambda: home.view(run)["state"] == "running", "it runs")
    other.gofer("list", "runs", "--everywhere")
    for one in (run, rows, f"{rows}-1"):
        for verb in ("abort", "resubmit"):
            refused = other.gofer(verb, one, status=1)
            assert "nothing was stopped" in refused.err and "gofer abort" in refused.err, refused
            assert "waiting for the end" not in refused.err
    assert home.view(run)["state"] == "running"
    assert home.gofer("abort", "--grace", "0s", run, rows).out.split()[1::2] == ["cancelled", "cancelled"]
    # What has ended is left alone, wherever it was recorded.
    assert other.gofer("abort", run).out == f"{run} cancelled\n"
    assert "has already ended" in other.gofer("abort", run).err
    other.close()


def test_a_target_that_no_settings_have_costs_one_line(home: Home) -> None:
    run = home.finish("true")["id"]
    lost = home.submit("sleep", "600")
    home.gofer("abort", "--grace", "0s", lost)
    with closing(sqlite3.connect(home.path / "ledger.db")) as ledger, ledger:
        ledger.execute(
            "UPDATE runs SET target = 'lab', backend = 'ssh', state = 'running', definition = '' "
            "WHERE id = ?",
            [lost],
        )
    elsewhere = home.root / "elsewhere"
    elsewhere.mkdir()
    listed = home.gofer("list", "runs", cwd=elsewhere)
    assert run[-6:] in listed.out and lost[-6:] in listed.out
    (warning,) = listed.err.splitlines()
    assert f"the target `lab` of {lost[-6:]} is no longer in the settings of `{home.folder}`" in warning
    assert home.gofer("q", run, cwd=elsewhere).err == ""
    home.gofer("q", lost, cwd=elsewhere)
    assert home.submit("true")
    refused = home.gofer("abort", lost, status=1)
    assert "`lab`" in refused.err and "waiting" not in refused.err
    home.wait("last")
