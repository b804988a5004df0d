"""`gofer prune` on this machine: what goes, what stays, and what happens meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from home import Home, until
from local.folder_fixtures import file_home as file_home
from local.folder_home import FolderHome
from terminal import Terminal

from gofer.ops.session import Session

DAY_S = 86400.0
LONG_AGO = time.time() - 60 * DAY_S
NOW = ("--older-than", "0s")
# A Python whose files go slowly, so that a removal can be caught in its midst.
SLOW = """
import os, time
plain = os.unlink
def slow(*words, **more):
    time.sleep(0.05)
    plain(*words, **more)
os.unlink = slow
"""


def age(path: Path, at: float = LONG_AGO) -> None:
    """As if nobody had touched it since."""
    for one in (path, *path.rglob("*")):
        os.utime(one, (at, at), follow_symlinks=False)


def pruned(home: Home, *words: str, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.gofer("prune", "--json", "--yes", *words, status=status).out)
    return found


def kinds(answer: dict[str, Any]) -> list[str]:
    return sorted(one["kind"] for one in answer["items"] if one["removed"])


def ended(home: Home, *words: str, text: str = "") -> str:
    """The id of a run with the code of the project, over and done."""
    if text:
        (home.folder / "train.py").write_text(text)
    done = json.loads(home.gofer("submit", "-Q", "--wait", "--json", *(words or ("echo", "hello"))).out)
    assert done["state"] == "succeeded"
    return str(done["id"])


# -- copies of mapped folders


@pytest.fixture
def copied(file_home: FolderHome) -> Iterator[tuple[FolderHome, Path]]:
    """A home that has run with a copy of `data`, and that copy."""
    file_home.put({"a": b"x" * 5000})
    assert file_home.run("cat", "data/a")["state"] == "succeeded"
    (copy,) = (file_home.queue_home / "folders").iterdir()
    yield file_home, copy


def test_a_copy_that_no_run_used_for_long_goes_and_is_brought_again(
    copied: tuple[FolderHome, Path],
) -> None:
    home, copy = copied
    assert pruned(home, *NOW)["items"] == []  # a day old at the least
    age(copy)
    output = home.gofer("prune", "--dry-run").out
    assert "folder copy" in output and "me/data" in output and copy.exists()
    answer = pruned(home)
    assert kinds(answer) == ["folder copy"] and answer["freed"] >= 5000
    assert not copy.exists()
    assert home.run("wc", "-c", "data/a")["state"] == "succeeded" and copy.exists()


def test_a_copy_in_use_stays_however_old(copied: tuple[FolderHome, Path]) -> None:
    home, copy = copied
    run = home.begin("sh", "-c", "echo up; sleep 100")
    home.until_logged(run, "up")
    age(copy)
    answer = pruned(home)
    assert [one["removed"] for one in answer["items"]] == [False]
    assert (copy / "tree" / "a").exists()
    home.gofer("abort", run)
    home.wait(run)
    assert kinds(pruned(home)) == ["folder copy"]


def test_a_run_that_waits_for_a_copy_which_is_removed_makes_another(
    copied: tuple[FolderHome, Path],
) -> None:
    """The copier is in the midst of waiting for the lock of a copy when that is removed."""
    import fcntl

    home, copy = copied
    with open(copy / "copying") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        run = home.begin("wc", "-c", "data/a")
        until(lambda: home.steps(run, "waiting"), "it waits for the lock")
        copy.rename(home.root / "away")
    assert home.wait(run)[0]["state"] == "succeeded"
    assert (copy / "tree" / "a").exists()


def test_a_removal_that_was_killed_is_completed_by_the_next(copied: tuple[FolderHome, Path]) -> None:
    home, copy = copied
    for number in range(3000):
        (copy / "tree" / f"f{number}").write_bytes(b"x")
    age(copy)
    (home.root / "sitecustomize.py").write_text(SLOW)
    home.environ["PYTHONPATH"] = str(home.root)
    process = home.start("prune", "--yes")
    until(
        lambda: (home.queue_home / "gone").exists() and any((home.queue_home / "gone").iterdir()),
        "it removes",
    )
    process.send_signal(signal.SIGKILL)
    process.communicate()
    del home.environ["PYTHONPATH"]
    assert any((home.queue_home / "gone").iterdir())
    assert kinds(pruned(home)) == ["remains"]
    assert not any((home.queue_home / "gone").iterdir()) and pruned(home)["items"] == []


# -- copies of logs


def test_copies_of_logs_go_and_what_is_nobodys_copy_stays(home: Home) -> None:
    first, second = ended(home), ended(home)
    for run in (first, second):
        home.gofer("q", run)
    notes = home.folder / "assets" / first / "notes.txt"
    notes.write_text("mine")
    changed = next((home.folder / "assets" / second).rglob("rank-0.log"))
    changed.write_text("edited by hand")
    assert pruned(home)["items"] == []  # they ended a moment ago
    assert kinds(pruned(home, *NOW)) == ["log copies", "log copies"]
    left = [path for path in (home.folder / "assets").rglob("*") if path.is_file()]
    left = [path for path in left if path.name != ".gitignore"]
    assert sorted(left) == sorted([notes, changed])
    assert "hello" in home.gofer("q", second).out


def test_a_running_run_keeps_its_copies(home: Home) -> None:
    run = home.submit("sh", "-c", "echo up; sleep 100")
    home.until_logged(run, "up")
    home.gofer("q", run)
    assert pruned(home, *NOW, "--runs", "--code")["items"] == []
    assert list((home.folder / "assets" / run).rglob("rank-0.log"))
    home.gofer("abort", run)


def test_rows_of_an_array_have_copies_by_their_index(home: Home) -> None:
    done = home.gofer("submit", "-Q", "--no-code", "--wait", "--json", "--each", "n=1,2", "false", status=1)
    group = json.loads(done.out)["id"]
    home.gofer("q", group)
    assert len(list((home.folder / "assets" / group).rglob("rank-0.log"))) == 2
    assert kinds(pruned(home, *NOW)) == ["log copies"]
    assert not (home.folder / "assets" / group).exists()


# -- asking


def test_without_a_terminal_it_needs_yes(home: Home) -> None:
    run = ended(home)
    home.gofer("q", run)
    done = home.gofer("prune", *NOW, status=2)
    assert "--yes" in done.err and "log copies" in done.out
    assert (home.folder / "assets" / run).exists()


@pytest.mark.parametrize(("answer", "status"), [("", 1), ("n", 1), ("y", 0)])
def test_on_a_terminal_it_asks(home: Home, answer: str, status: int) -> None:
    run = ended(home)
    argv = home.argv("prune", *NOW, "--runs")
    with Terminal(argv, cwd=home.folder, env=home.environ) as terminal:
        assert "1 whole run with logs and outputs" in terminal.until("[y/N]")
        terminal.type(f"{answer}\n")
        assert terminal.end() == status
    assert home.run_folder(run).exists() == bool(status)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--runs",), "--older-than"),
        (("--filter", "state=failed"), "--runs"),
        (("--all", "-t", "local"), "leave one"),
        (("--older-than", "soon"), "duration"),
        (("-t", "nowhere"), "nowhere"),
    ],
)
def test_words_that_mean_nothing_are_refused(home: Home, words: tuple[str, ...], message: str) -> None:
    assert message in home.gofer("prune", *words, status=2).err


def test_a_place_that_cannot_be_reached_is_named_and_the_others_are_done(home: Home) -> None:
    home.configure("targets: {box: {kind: ssh, hosts: [nobody.invalid]}, local: {kind: local}}\n")
    run = ended(home, "-t", "local", "echo", "x")
    home.gofer("q", run)
    answer = pruned(home, *NOW, "--all", status=1)
    assert kinds(answer) == ["log copies"]
    assert "nobody.invalid:~/.gofer" in [one["place"] for one in answer["silent"]]
    assert not (home.folder / "assets" / run).exists()


# -- code


def objects(home: Home, kind: str) -> set[str]:
    return {path.name for path in (home.store / kind).glob("*")}


def test_code_that_no_run_has_goes_and_is_sent_again(home: Home) -> None:
    ended(home, text="print(1)")
    old = objects(home, "snapshots") | objects(home, "packs")
    kept = ended(home, text="print(2)")
    age(home.store)
    assert pruned(home, *NOW, "--code")["items"] == []  # both runs are there
    home.gofer("prune", "--yes", *NOW, "--runs", "--filter", f"id!={kept}")
    assert kinds(pruned(home, *NOW)) == []
    answer = pruned(home, *NOW, "--code")
    assert set(kinds(answer)) == {"pack", "snapshot"}
    assert {one["name"] for one in answer["items"]} <= old
    home.gofer("extract", kept, "there")
    assert (home.folder / "there/code/train.py").read_text() == "print(2)"
    again = ended(home, "python", "train.py", text="print(1)")
    assert home.log(again) == "1\n"


def test_young_code_stays_for_the_run_that_is_being_submitted(home: Home) -> None:
    (home.folder / "train.py").write_text("print(1)")
    home.gofer("init")
    before = objects(home, "snapshots")
    assert len(before) == 1 and pruned(home, *NOW, "--code")["items"] == []
    age(home.store)
    # Used again, it is young again.
    run = home.gofer("submit", "-Q", "true").out.strip()
    home.wait(run)
    home.gofer("prune", "--yes", *NOW, "--runs")
    assert pruned(home, *NOW, "--code")["items"] == [] and objects(home, "snapshots") == before
    age(home.store)
    assert "snapshot" in kinds(pruned(home, *NOW, "--code"))


def test_a_record_that_cannot_be_read_keeps_all_code(home: Home) -> None:
    run = ended(home, text="print(1)")
    (home.run_folder(run) / "run.json").write_text("{torn")
    age(home.store)
    shutil.rmtree(home.path / "cache")
    home.gofer("ledger", "rebuild")
    answer = pruned(home, "--code", status=1)
    assert answer["items"] == [] and run in answer["silent"][0]["why"]


# -- whole runs


def test_whole_runs_go_with_what_they_could_not_send(home: Home) -> None:
    failed = json.loads(home.gofer("submit", "--wait", "--json", "false", status=1).out)["id"]
    good = ended(home)
    for run in (failed, good):
        (home.queue_home / "unsent" / run).mkdir(parents=True)
        (home.queue_home / "unsent" / run / "x").write_text("somebody's")
    assert pruned(home, *NOW)["items"] == []
    answer = pruned(home, *NOW, "--runs", "--filter", "state=failed")
    assert kinds(answer) == ["run", "unsent"]
    assert not home.run_folder(failed).exists() and not (home.queue_home / "unsent" / failed).exists()
    assert home.run_folder(good).exists() and (home.queue_home / "unsent" / good).exists()
    assert [one["id"] for one in json.loads(home.gofer("list", "runs", "--json").out)] == [good]
    home.gofer("ledger", "rebuild")
    assert [one["id"] for one in json.loads(home.gofer("list", "runs", "--json").out)] == [good]


def test_an_array_goes_with_its_rows(home: Home) -> None:
    done = home.gofer("submit", "-Q", "--no-code", "--wait", "--json", "--each", "n=1,2,3", "true")
    group = json.loads(done.out)["id"]
    assert kinds(pruned(home, *NOW, "--runs")) == ["run"]
    assert not list((home.store / "runs").glob(f"{group}*"))
    assert json.loads(home.gofer("list", "runs", "--rows", "--json").out) == []


def test_runs_of_another_machine_are_left_to_it(home: Home) -> None:
    run = ended(home)
    (home.queue_home / "id").write_text("another")
    done = home.gofer("prune", "--yes", *NOW, "--runs")
    assert "1 more run" in done.err and home.run_folder(run).exists()


def test_a_killed_removal_of_runs_is_completed_and_submits_nothing_again(home: Home) -> None:
    run = ended(home)
    (home.run_folder(run) / "run.json").unlink()  # the first that goes
    assert kinds(pruned(home, *NOW, "--runs")) == ["run"]
    assert not home.run_folder(run).exists()
    home.gofer("ledger", "rebuild")
    assert json.loads(home.gofer("list", "runs", "--json").out) == []


def test_what_is_left_of_a_run_whose_record_is_gone_goes_after_a_day(home: Home) -> None:
    done = home.gofer("submit", "-Q", "--no-code", "--wait", "--json", "--each", "n=1,2", "true")
    group = json.loads(done.out)["id"]
    (home.run_folder(group) / "run.json").unlink()
    home.gofer("ledger", "rebuild")
    assert pruned(home, *NOW, "--runs")["items"] == []
    age(home.store)
    assert kinds(pruned(home, *NOW)) == [] and kinds(pruned(home, *NOW, "--runs")) == ["run remains"]
    assert list((home.store / "runs").glob("*")) == []


def test_an_empty_folder_of_a_removal_that_was_killed_goes(home: Home) -> None:
    run = home.submit("true")
    home.wait(run)
    kept, empty = home.run_folder(run), home.store / "runs/r200101-000000-aaaaaa"
    (empty / "attempts/1").mkdir(parents=True)
    assert kinds(pruned(home, "--older-than", "30d", "--runs")) == ["run remains"]
    assert kept.exists() and not empty.exists()


def test_killed_anywhere_it_is_completed_and_nothing_runs_twice(home: Home) -> None:
    ran = home.root / "ran.txt"
    runs = [home.submit("sh", "-c", f"echo x >> {ran}") for _ in range(6)]
    runs += [str(home.gofer("submit", "-Q", "sh", "-c", f"echo x >> {ran}").out.strip()) for _ in range(2)]
    home.wait(*runs)
    for run in runs:
        home.gofer("q", run)
    age(home.store)
    for pause_s in (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5):
        process = home.start("prune", "--yes", *NOW, "--runs", "--code")
        time.sleep(pause_s)
        process.kill()
        process.communicate()
        home.gofer("ledger", "rebuild")
        home.gofer("list", "runs")  # would send again what it takes for unsent
    age(home.store)
    pruned(home, *NOW, "--runs", "--code")
    assert list((home.store / "runs").iterdir()) == []
    assert json.loads(home.gofer("list", "runs", "--json").out) == []
    home.gofer("ledger", "rebuild")
    assert json.loads(home.gofer("list", "runs", "--json").out) == [] and home.open_runs() == []
    assert ran.read_text() == "x\n" * len(runs)
    assert objects(home, "packs") == set() == objects(home, "snapshots")


# -- several at once


def test_two_at_once_while_runs_are_submitted_and_run(copied: tuple[FolderHome, Path]) -> None:
    home, copy = copied
    for _ in range(3):
        done = home.run("wc", "-c", "data/a")
        assert done["state"] == "succeeded"
        home.gofer("q", done["id"])
        age(copy)
        going = [home.start("submit", "-Q", "sh", "-c", "cat data/a | wc -c") for _ in range(2)]
        going += [home.start("prune", "--yes", "-Q", *NOW, "--code") for _ in range(2)]
        for process in going:
            out, err = process.communicate(timeout=100)
            assert process.returncode == 0, (out, err)
    rows = json.loads(home.gofer("list", "runs", "--all", "--json").out)
    ends = home.wait(*(row["id"] for row in rows))
    assert {one["state"] for one in ends} == {"succeeded"} and len(ends) == 10
    assert pruned(home, *NOW, "--runs")["removed"] >= 10


def test_old_code_that_is_taken_up_again_while_it_is_removed(home: Home) -> None:
    """A submission finds packs in the store that go before it has said that it needs them."""
    for number in range(6):
        home.gofer("prune", "--yes", *NOW, "--runs")
        (home.folder / "train.py").write_text("print(1)")
        (home.folder / "notes.txt").write_text("the same")
        home.gofer("init")
        age(home.store)
        (home.folder / "notes.txt").write_text(f"another {number}")
        removing = home.start("prune", "--yes", "-Q", *NOW, "--code")
        time.sleep(0.03 * number)
        submitting = home.start("submit", "-Q", "python", "train.py")
        run = submitting.communicate(timeout=100)[0].decode().strip()
        removing.communicate(timeout=100)
        assert (submitting.returncode, removing.returncode) == (0, 0)
        (done,) = home.wait(run)
        assert (done["state"], done["detail"]) == ("succeeded", None), done["attempts"]
        assert home.log(run) == "1\n"


def test_ended_tokens_and_those_of_profiles_that_are_gone_go(home: Home) -> None:
    from gofer.transport.azure.tokens import Token, TokenFiles

    files = TokenFiles(str(home.queue_home / "azure"))
    later = time.time() + 3600
    files.write(f"az in {home.folder}\0", "scope", Token("not-a-real-token", later))
    files.write(f"az in {home.root}/nowhere\0", "scope", Token("not-a-real-token", later))
    files.write(f"az in {home.path}/azure/removed\0", "scope", Token("not-a-real-token", later))
    files.write("managed identity\0", "scope", Token("not-a-real-token", time.time() - 10))
    assert kinds(pruned(home)) == ["token", "token"]
    assert {one.who for one in files.held()} == {f"az in {home.folder}\0", f"az in {home.root}/nowhere\0"}


def test_a_dry_run_changes_nothing(home: Home) -> None:
    run = ended(home)
    home.gofer("q", run)
    before = sorted(path for path in home.root.rglob("*") if "engine" not in path.parts)
    answer = json.loads(home.gofer("prune", "--json", "--dry-run", *NOW, "--runs", "--code").out)
    assert answer["dry_run"] and answer["removed"] == 0 and len(answer["items"]) == 2
    assert sorted(path for path in home.root.rglob("*") if "engine" not in path.parts) == before
    with Session(home.folder, home.environ) as session:
        assert session.ledger.get(run) is not None
