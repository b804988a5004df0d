"""A run that was sent is said to be sent, whatever stands in the way; commands at once lose nothing."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from home import Done, Home, until


def shell(home: Home, words: str, redirections: str) -> Done:
    """gofer as a shell starts it, with these redirections."""
    line = f"unset PYTHONUNBUFFERED; exec {shlex.join(home.argv())} {words} {redirections}"
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=home.folder,
        env=home.environ,
        capture_output=True,
        timeout=300,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr, done
    return Done(done.returncode, done.stdout, done.stderr)


def recorded(home: Home) -> list[str]:
    return sorted(path.name for path in (home.store / "runs").iterdir()) if home.store.exists() else []


UNWRITABLE = [">&-", ">/dev/full", "2>&-", "2>/dev/full", "<&- >&- 2>&-", ">/dev/full 2>&1", "| true"]


@pytest.mark.parametrize("to", UNWRITABLE)
def test_a_stream_that_cannot_be_written_is_no_failure_of_a_submission(home: Home, to: str) -> None:
    done = shell(home, "submit --no-code true", to)
    assert done.status == 0, done
    (run,) = recorded(home)
    if to == ">/dev/full":
        assert f"stdout cannot be written (no space left on device); {run} was sent" in done.err
    # The command still waits, and exits as the run did.
    assert shell(home, "submit --no-code --wait sh -c 'exit 3'", to).status in (0 if "|" in to else 3, 3)
    again = shell(home, f"resubmit {run}", to)
    assert again.status == 0, again
    assert len(recorded(home)) == 3
    for words in (f"tag {run} x=1", f"abort {run}"):
        assert shell(home, words, to).status == 0
    assert home.view(run)["tags"] == {"x": "1"}
    for words in ("list", f"q {run}", "version"):
        status = shell(home, words, to).status
        assert status == (1 if to.startswith(">/dev/full") else 0), words
    home.wait(*recorded(home))


def test_a_log_that_cannot_be_written_says_that_the_run_was_sent(home: Home) -> None:
    done = shell(home, "submit --no-code -f echo hi", ">/dev/full")
    (run,) = recorded(home)
    assert done.status == 141 and f"{run} was sent" in done.err
    home.wait(run)


def test_a_secret_from_a_closed_stdin_is_refused_in_words(home: Home) -> None:
    done = shell(home, "secret set x", "<&-")
    assert done.status == 2 and "is empty" in done.err


def test_junk_in_private_folders_stops_nothing(home: Home) -> None:
    home.wait(home.submit("true"))
    junk = ("x@None", "x@1", "x@1:2:3", "x@a:b.tmp", "@", "x@1:2\n", "r1@9" + "9" * 30 + ":1")
    for name in junk:
        (home.queue_home / "sealed" / name).touch()
    (home.queue_home / "sealed" / "a@folder").mkdir()
    for folder in ("work", "spool", "."):
        (home.queue_home / folder).mkdir(exist_ok=True)
        (home.queue_home / folder / "x@None").touch()
    for _ in range(2):
        done = home.gofer("submit", "--no-code", "--wait", "true")
        assert "warning" not in done.err
    assert all((home.queue_home / "sealed" / name).exists() for name in junk)


def test_what_fails_after_the_queue_has_the_run_is_a_warning(home: Home) -> None:
    home.wait(home.submit("true"))
    (home.queue_home / "sealed").rename(home.queue_home / "sealed-before")
    (home.queue_home / "sealed").symlink_to("sealed-before")
    done = home.gofer("submit", "--no-code", "true", status=None)
    # Refused before it is recorded, or sent: never both.
    assert (done.status == 0) == (len(recorded(home)) == 2), done
    (home.queue_home / "sealed").unlink()
    (home.queue_home / "sealed-before").rename(home.queue_home / "sealed")
    home.wait(*recorded(home))


def test_a_rebuild_beside_submissions_loses_nothing(home: Home) -> None:
    home.submit("true")
    ids: list[str] = []
    for _ in range(4):
        rebuild = home.start("ledger", "rebuild")
        sent = [home.start("submit", "-Q", "--no-code", "true") for _ in range(3)]
        for one in sent:
            out, err = one.communicate(timeout=300)
            assert one.returncode == 0, err
            ids.append(out.decode().strip())
        _, err = rebuild.communicate(timeout=300)
        assert rebuild.returncode == 0, err
    listed = home.gofer("list", "runs", "--all", "--columns", "id").out
    assert [one for one in ids if one[-6:] not in listed and one not in listed] == []
    home.wait(*ids)


def test_tags_set_at_once_are_all_there(home: Home, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    other = Home(tmp_path / "two")
    text = f"targets: {{local: {{kind: local, store: fs}}}}\nstores: {{fs: {{url: 'file://{store}'}}}}\n"
    for each in (home, other):
        each.configure(text)
    run = home.submit("true")
    group = home.submit("--each", "a=1,2", "true", "{a}")
    home.wait(run, group)
    other.gofer("list", "runs", "--everywhere")
    started = [
        one.start("tag", target, f"{word}{number}={number}")
        for number in range(4)
        for one, word in ((home, "a"), (other, "b"))
        for target in (run, f"{group}-{number % 2}")
    ]
    for process in started:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    home.gofer("ledger", "rebuild")
    assert home.view(run)["tags"] == {f"{w}{n}": str(n) for w in "ab" for n in range(4)}
    rows = [home.view(f"{group}-{row}")["tags"] for row in (0, 1)]
    assert rows == [{f"{w}{n}": str(n) for w in "ab" for n in (row, row + 2)} for row in (0, 1)]
    other.close()


def test_a_supervisor_that_stands_still_is_named(home: Home) -> None:
    run = home.submit("sleep", "600")
    until(lambda: home.view(run)["state"] == "running", "it runs")
    pid = home.supervisor()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        for verb in ("abort", "resubmit"):
            refused = home.gofer(verb, run, status=1)
            assert f"(process {pid}) is stopped" in refused.err and "kill -CONT" in refused.err, refused
    finally:
        os.kill(pid, signal.SIGCONT)
    assert home.wait(run)[0]["state"] == "cancelled"


@pytest.mark.parametrize("what", ["$GOFER_RUN_DIR", "$GOFER_RUN_DIR/attempts", "$GOFER_OUTPUT_DIR"])
def test_a_command_that_removes_its_own_folder_keeps_its_exit_code(home: Home, what: str) -> None:
    (home.folder / "code.txt").touch()
    done = home.gofer("submit", "--wait", "-Q", "bash", "-c", f'rm -rf "{what}"; exit 7', status=7)
    run = home.view(done.out.strip())
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit-code", 7)


# Each text replaces a function by one that is interrupted before or after its work.
INTERRUPTED = """
import sys
import {module} as module

work = module.{name}

def interrupted(*words, **named):
    if {does_work}:
        work(*words, **named)
    raise KeyboardInterrupt

module.{name} = interrupted
from gofer.cli.main import entry
sys.argv[0] = "gofer"
entry()
"""


@pytest.mark.parametrize(
    ("module", "name", "does_work", "message"),
    [
        ("gofer.ops.submission.submit", "make_draft", False, "interrupted: nothing was submitted"),
        ("gofer.ops.submission.submit", "_rows", False, "interrupted: nothing was submitted"),
        (
            "gofer.tracking.ledger",
            "Ledger.insert",
            True,
            "is recorded, and the next command that can sends it",
        ),
        ("gofer.ops.submission.send", "send", False, "is recorded, and the next command that can sends it"),
        ("gofer.ops.submission.send", "send", True, "was submitted"),
    ],
)
def test_ctrl_c_says_what_becomes_of_the_run(
    home: Home, module: str, name: str, does_work: bool, message: str
) -> None:
    text = INTERRUPTED.format(module=module, name=name, does_work=does_work)
    done = subprocess.run(
        [sys.executable, "-c", text, "submit", "--no-code", "true"], cwd=home.folder, env=home.environ,
        capture_output=True, timeout=300, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 130
    assert message in done.stderr
    runs = home.gofer("list", "runs", "--json").out
    ids = [run["id"] for run in json.loads(runs)]
    assert len(ids) == (0 if "nothing" in message else 1)
    for run in ids:
        assert run in done.stderr
        assert home.wait(run)[0]["state"] == "succeeded"
