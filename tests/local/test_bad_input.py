"""Bad input: one line that says what is wrong, a hint where one helps, and nothing half-written."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from another_user import as_nobody
from home import Done, Home

TARGETS = """
targets:
  four: {kind: local, gpus: 8, gpus_per_node: 4}
  none: {kind: local, gpus: 0}
  away: {kind: local, store: away}
  cloud: {kind: local, store: cloud}
stores:
  away: {url: file:///nonexistent/gofer-store}
  cloud: {url: memory://there}
"""


def check_refused(done: Done, *, status: int, error: str, hint: str | None) -> None:
    """One `error:` line with these words, then a `hint:` line with those, and nothing else."""
    lines = done.err.splitlines()
    assert done.status == status, done.err
    assert done.out == ""
    assert lines[0].startswith("error: "), done.err
    assert error in lines[0]
    assert not lines[0].endswith(".")
    assert len(lines) == (1 if hint is None else 2), done.err
    if hint is not None:
        assert lines[1].startswith("hint: ")
        assert hint in lines[1]


def check_nothing_written(home: Home) -> None:
    """No row in the ledger, no folder of a run, nothing sealed, nothing queued, no process."""
    ledger = home.path / "ledger.db"
    if ledger.exists():
        with closing(sqlite3.connect(ledger)) as db:
            assert db.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    assert list(home.path.glob("store/runs/*")) == []
    assert list(home.path.glob("engine/*/seal*/*")) == []
    assert home.open_runs() == []
    assert home.processes() == {}


@pytest.mark.parametrize(
    ("words", "status", "error", "hint"),
    [
        ([], 2, "there is no command to run", "gofer submit python train.py"),
        (["no-such-program-here"], 1, "there is no program `no-such-program-here`", "./NAME"),
        (["pyhton", "x.py"], 1, "there is no program `pyhton`", "did you mean `python"),
        (["plain.txt"], 1, "there is no program `plain.txt`", "is written `./plain.txt`"),
        (["FOO=1", "python", "x.py"], 1, "no program `FOO=1`", "`gofer submit -e FOO=1 python x.py`"),
        (["FOO=1 python x.py"], 1, "program `FOO=1 python x.py`", "`gofer submit -e FOO=1 python x.py`"),
        (["FOO=a b/c", "true"], 1, "the program `FOO=a b/c` does not exist", "-e 'FOO=a b/c' true`"),
        (["python x > y"], 1, "no program `python x > y`", "`gofer submit bash -c 'python x > y'`"),
        (["python a/x.py > y"], 1, "`python a/x.py > y` does not exist", "bash -c 'python a/x.py > y'`"),
        (["ls *.py | wc -l"], 1, "no program `ls *.py | wc -l`", "`gofer submit bash -c 'ls *.py | wc -l'`"),
        (["python train.py"], 1, "no program `python train.py`", "`gofer submit python train.py`"),
        (["cd", "sub"], 1, "`cd` is a shell builtin", "`gofer submit bash -c 'cd sub && COMMAND'`"),
        (["source", "x y"], 1, "`source` is a shell builtin", 'bash -c "source '),
        (["export", "A=1"], 1, "`export` is a shell builtin", "`gofer submit -e A=1 COMMAND`"),
        (["help"], 1, "`help` is a shell builtin", "`gofer submit --help`"),
        (["run.sh", "a"], 1, "no program `run.sh`", "`./run.sh`: `gofer submit bash run.sh a`"),
        (["gresourc"], 1, "there is no program `gresourc`", "./NAME"),
        (["./train"], 1, "the program `./train` does not exist", "looked in"),
        (["./plain.txt"], 1, "the program `./plain.txt` cannot be executed", "chmod +x ./plain.txt"),
        (["python", "trian.py"], 1, "the script `trian.py` is not in", "did you mean `train.py`?"),
        (["bash", "missing.sh"], 1, "the script `missing.sh` is not in", None),
        (["-t", "for", "true"], 2, "there is no target `for`", "did you mean `four`?"),
        (["-t", "four", "-n", "6", "true"], 1, "6 GPUs do not divide into nodes of 4", "ask for 4 or 8"),
        (["-t", "four", "-n", "12", "true"], 1, "asks for 12 GPUs, but the target `four` has 8", "at most 8"),
        (["-t", "four", "-N", "3", "-n", "8", "true"], 1, "do not divide over 3 nodes", "multiple of 3"),
        (["-t", "four", "-N", "1", "-n", "8", "true"], 1, "8 GPUs do not divide over 1 nodes", "at most 4"),
        (["-t", "none", "-n", "1", "true"], 1, "the target `none` has no GPUs and 1 were asked for", "`-n`"),
        (["-t", "away", "true"], 1, "/nonexistent/gofer-store", ""),
        (["-t", "cloud", "true"], 2, "runs cannot reach the store `memory://there`", "file://"),
        (["--cpus", "9999", "true"], 1, "the job asks for 9999 CPU cores", "--cpus"),
        (["--time-limit", "soon", "true"], 2, "`soon` is not a duration", "1h30m"),
        (["--retries", "-1", "true"], 2, "retries", None),
        (["--retry-on", "bad-luck", "true"], 2, "bad-luck", None),
        (["--job", "absent.yaml"], 2, "absent.yaml", None),
        (["--job", "odd.yaml"], 2, "odd.yaml:2: ", "did you mean `command`?"),
        (["--each", "lr", "true"], 2, "`--each lr` has no values", "--each lr=0.1,0.01"),
        (["--each", "lr=1", "--each", "lr=2", "true"], 2, "lr", None),
        (["--array", "absent.csv", "true"], 2, "absent.csv", None),
        (["--each", "n=1..1000", "--each", "m=1..1000", "true"], 2, "1,000,000 rows", "100,000"),
        (["-e", "NOT_SET_ANYWHERE", "true"], 2, "not set here", "-e NOT_SET_ANYWHERE=VALUE"),
        (["-e", "X=${secret:none}", "true"], 1, "none", "gofer secret set none"),
        (["-e", "X=${env:NOT_SET_ANYWHERE}", "true"], 2, "NOT_SET_ANYWHERE", None),
        (["echo", "not utf-8: \udcff"], 2, "not UTF-8", None),
        (["--name", "two\nlines", "true"], 2, "one printable line", None),
        (["-n", "-1", "true"], 2, "gpus", None),
    ],
    ids=lambda value: ascii(" ".join(value)[:40]) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_submission_that_cannot_be(
    home: Home, words: list[str], status: int, error: str, hint: str | None
) -> None:
    home.configure(TARGETS)
    (home.folder / "train.py").touch()
    (home.folder / "plain.txt").touch()
    (home.folder / "run.sh").touch()
    (home.folder / "odd.yaml").write_text("name: x\ncomand: [ls]\n")
    done = home.gofer("submit", *words, status=None)
    lines = done.err.splitlines()
    # Some hints are the business of other tests; that there is no more than one is ours.
    loose = hint is None and len(lines) == 2 and lines[1].startswith("hint: ")
    check_refused(done, status=status, error=error, hint="" if loose else hint)
    check_nothing_written(home)


@pytest.mark.parametrize("verb", ["q", "logs", "wait", "abort", "resubmit", "tag"])
def test_a_run_that_is_not_there(home: Home, verb: str) -> None:
    home.finish("true")
    words = [verb, "zzzzzz"] + (["k=v"] if verb == "tag" else [])
    done = home.gofer(*words, status=None)
    check_refused(done, status=2, error="zzzzzz", hint="gofer list runs")


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("targets: {a: {kind: locl}}", "there is no kind of target `locl`", "did you mean `local`?"),
        ("targets: {a: {kind: local, gpu: 4}}", "gpu", "did you mean `gpus`?"),
        ("targets: {a: {kind: local, gpus: many}}", "gpus", None),
        ("targets: {a: {kind: local, gpus: -2}}", "gpus", None),
        ("target: elsewhere", "there is no target `elsewhere`", "gofer.yaml:1"),
        ("jobs: {}", "jobs", "did you mean `job`?"),
        ("job: {gpus: [1]}", "gpus", None),
        ("targets: [", "gofer.yaml:2", None),
        ("targets: {a: {kind: local, store: blop}}\nstores: {blob: {url: 'file:///x'}}", "blop", "`blob`?"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(home: Home, text: str, error: str, hint: str | None) -> None:
    home.configure(text)
    done = home.gofer("submit", "true", status=2)
    lines = done.err.splitlines()
    assert lines[0].startswith("error: ")
    assert error in lines[0]
    assert hint is None or hint in done.err
    assert len(lines) <= 2
    check_nothing_written(home)


@pytest.mark.root
def test_a_home_that_cannot_be_written(home: Home) -> None:
    home.path.mkdir(mode=0o755)
    done = _as_nobody(home).gofer("submit", "--no-code", "true", status=None)
    check_refused(done, status=1, error=str(home.path), hint=None if len(done.err.splitlines()) == 1 else "")
    assert list(home.path.iterdir()) == []


@pytest.mark.root
def test_a_code_folder_that_cannot_be_read(home: Home) -> None:
    (home.folder / "private").mkdir(mode=0o700)
    (home.folder / "private" / "file.py").touch()
    home.path.mkdir()
    os.chown(home.path, 65534, 65534)
    # Without the capability to read everything; the interpreter must then be in a place anybody may read.
    one = _as_nobody(home, readable=False)
    if not _can_start(one):
        pytest.skip("the interpreter lies where others may not read")
    done = one.gofer("submit", "true", status=None)
    assert done.status == 1, done.err
    assert "private" in done.err
    assert done.err.startswith("error: ")
    check_nothing_written(home)


def _as_nobody(home: Home, *, readable: bool = True) -> Home:
    return Home(home.root, prefix=as_nobody(readable=readable))


def _can_start(home: Home) -> bool:
    import subprocess

    for folder in (home.root, *home.root.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    tried = subprocess.run(
        home.argv("version"), env=home.environ, cwd="/", capture_output=True, check=False, timeout=60
    )
    return tried.returncode == 0


def test_a_store_that_goes_away_while_runs_are_in_it(home: Home) -> None:
    store = home.root / "elsewhere"
    store.mkdir()
    home.configure(
        f"targets: {{kept: {{kind: local, store: kept}}}}\nstores: {{kept: {{url: 'file://{store}'}}}}"
    )
    run = home.gofer("submit", "-Q", "--no-code", "--wait", "-t", "kept", "echo", "hello").out.strip()
    shutil.move(store, home.root / "moved")
    done = home.gofer("logs", run, status=None)
    check_refused(done, status=1, error=str(store), hint="")
    done = home.gofer("submit", "--no-code", "-t", "kept", "true", status=None)
    check_refused(done, status=1, error=str(store), hint="")
    shutil.move(home.root / "moved", store)
    assert home.log(run) == "hello\n"


def test_a_damaged_ledger_is_set_aside_and_rebuilt(home: Home) -> None:
    run = home.finish("--tag", "a=b", "sh", "-c", "echo hi; exit 3")
    ledger = home.path / "ledger.db"
    for ending in ("-wal", "-shm"):
        Path(f"{ledger}{ending}").unlink(missing_ok=True)
    ledger.write_bytes(b"garbage" * 1000)
    done = home.gofer("q", "--json", run["id"])
    seen = home._parsed(done)
    assert "is damaged" in done.err
    assert seen | {"observed_at": None} == run | {"observed_at": None}
    assert [path.read_bytes()[:7] for path in home.path.glob("ledger.db.damaged-*")] == [b"garbage"]


def test_submitting_in_a_folder_that_is_gone(home: Home) -> None:
    words = " ".join(home.argv("submit", "true"))
    import subprocess

    done = subprocess.run(
        ["sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && exec {words}"],
        cwd=home.folder, env=home.environ, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    failed = Done(done.returncode, done.stdout, done.stderr)
    check_refused(failed, status=1, error="no longer exists", hint="cd")


def test_a_relative_program_without_code_is_refused(home: Home) -> None:
    program = home.folder / "tool"
    program.write_text("#!/bin/sh\necho hi\n")
    program.chmod(0o755)
    for words in (["./tool"], ["sh", "tool"]):
        done = home.gofer("submit", "--no-code", *words, status=None)
        check_refused(
            done, status=1, error="without code the command runs in an empty folder", hint="--no-code"
        )
    check_nothing_written(home)


def test_a_launcher_that_is_not_there_is_refused(home: Home) -> None:
    home.configure("job: {launcher: hydra}")
    done = home.gofer("submit", "--no-code", "true", status=None)
    assert done.status and "`job.launcher` must be one of" in done.err and "torchrun" in done.err
    assert home.gofer("list", "runs", "--json").out.strip() == "[]"


def test_a_text_with_which_no_process_can_be_started_is_refused(home: Home) -> None:
    """Linux takes at most 131,071 bytes in an argument of a command line or in a variable."""
    lines = "  true\n" * 60_000
    for text, message in (
        (f"command: 'true'\nsetup: |\n{lines}", "the set-up has 300,000 bytes"),
        (f"script: |\n{lines}", "an argument of the command has 300,000 bytes"),
        (f"command: 'true'\nenv: {{LONG: {'x' * 131_067}}}\n", "the variable `LONG` has 131,072 bytes"),
    ):
        (home.folder / "job.yaml").write_text(text)
        done = home.gofer("submit", "--no-code", "--job", "job.yaml", status=1)
        assert f"error: {message}; a process can be started with at most 131,071" in done.err
    assert not home.store.exists()
    (home.folder / "job.yaml").write_text(f"command: 'true'\nenv: {{LONG: {'x' * 131_066}}}\n")
    run = home.gofer("submit", "-Q", "--wait", "--no-code", "--job", "job.yaml").out.strip()
    assert home.view(run)["state"] == "succeeded"
