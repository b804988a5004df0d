"""gofer from Python: typed, lazy, and the same runs as on the command line."""

from __future__ import annotations

import datetime
import inspect
import json
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import pytest
from home import Home, until
from unit.cli.runs import a_run

import gofer
from gofer.config.paths import Paths
from gofer.errors import CheckFailed, Interrupted, UnknownName, UsageError
from gofer.tracking.ledger import Ledger


@pytest.fixture
def own_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home that this very process uses."""
    monkeypatch.setenv("GOFER_HOME", str(home.path))
    monkeypatch.setenv("PATH", home.environ["PATH"])
    monkeypatch.chdir(home.folder)
    (home.folder / "train.py").write_text("import sys\nprint('hello', *sys.argv[1:])\n")
    return home


def test_submit_wait_and_read(own_home: Home) -> None:
    run = gofer.submit(["python", "train.py", "a  b"], target="local", tags={"lr": "0.1"})
    assert run.wait() is run
    assert (run.state, run.reason, run.exit_code) == ("succeeded", None, 0)
    assert run.logs() == "hello a  b\n"
    assert run.tags == {"lr": "0.1"}
    assert own_home.view(run.id)["state"] == "succeeded"
    assert run.info()["command"] == ["python", "train.py", "a  b"]


def test_after_other_runs(own_home: Home) -> None:
    first = gofer.submit(["sh", "-c", "until [ -e $HELD ]; do sleep 0.05; done"], env={"HELD": "/dev/shm/no"})
    second = gofer.submit(["true"], after=[first, f"{first.id}:any"])
    third = gofer.submit(["true"], after=first)
    assert second.why().startswith(f"it waits for {first.id[-6:]} to end (it is ")
    first.abort(grace_s=0)
    assert second.wait().state == "succeeded"
    assert (third.wait().state, third.reason) == ("cancelled", "dependency")


def test_gpus_ranks_and_failures(own_home: Home) -> None:
    own_home.configure("targets: {two: {kind: local, gpus: 2}}")
    run = gofer.submit(["sh", "-c", "echo $RANK/$WORLD_SIZE; exit $RANK"], target="two", gpus=2).wait()
    assert (run.state, run.reason, run.exit_code) == ("failed", "exit-code", 1)
    assert run.logs(rank=1) == "1/2\n"


def test_abort(own_home: Home) -> None:
    run = gofer.submit(["sleep", "1000"], code=False)
    until(lambda: run.state == "running", "the run to start")
    assert run.abort(grace_s=5).state == "cancelled"
    assert run.reason == "user"


def test_a_wait_with_a_limit(own_home: Home) -> None:
    run = gofer.submit(["sleep", "1000"], code=False)
    with pytest.raises(TimeoutError, match="still not ended") as late:
        run.wait(timeout_s=0.2)
    assert isinstance(late.value, Interrupted)
    assert late.value.__notes__ == ["hint: wait again, or without `timeout_s`"]
    run.abort()


def test_a_failure_is_raised_when_asked_for(own_home: Home) -> None:
    good, bad = (gofer.submit([word], code=False) for word in ("true", "false"))
    assert gofer.wait([good, bad]) == [good, bad]
    good.wait(raise_on_failure=True)
    for wait in (
        lambda: bad.wait(raise_on_failure=True),
        lambda: gofer.wait([good, bad], raise_on_failure=True),
    ):
        with pytest.raises(gofer.RunFailed, match="exited with 1") as failure:
            wait()
        assert (failure.value.run_id, failure.value.state) == (bad.id, "failed")
        assert failure.value.hint and bad.id[-6:] in failure.value.hint
    assert bad.why() == "exited with 1"
    assert good.why() == ""


def test_a_failed_group_says_how_many_rows_failed(own_home: Home) -> None:
    group = gofer.submit(["sh", "-c", "exit {n}"], code=False, each={"n": [0, 3, 3]}).wait()
    assert group.why().splitlines()[0] == "2 failed: exited with 3"
    with pytest.raises(gofer.RunFailed, match="2 failed"):
        group.wait(raise_on_failure=True)


def test_options_are_typed_words(own_home: Home, tmp_path: Path) -> None:
    run = gofer.submit(
        ["sh", "-c", "echo $N $*", "-", 0.1, own_home.folder],
        name="words",
        env={"N": 7},
        tags={"lr": 0.1},
        time_limit="2h",
        grace=datetime.timedelta(seconds=3),
        retry_on=None,
    ).wait(raise_on_failure=True)
    assert run.logs() == f"7 0.1 {own_home.folder}\n"
    assert (run.name, run.target, run.tags) == ("words", "local", {"lr": "0.1"})
    record = json.loads((run.extract(tmp_path / "kept") / "run.json").read_text())
    assert (record["job"]["time_limit_s"], record["job"]["grace_s"]) == (7200, 3)
    assert "time_limit" in inspect.signature(gofer.submit).parameters


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("python3 train.py --lr 1", {}, "['python3', 'train.py', '--lr', '1']"),
        ("ls *.py | wc -l", {}, "gofer.submit(['bash', '-c', 'ls *.py | wc -l'])"),
        (b"true", {}, "gofer.submit(['true'])"),
        (7, {}, "a list of words, not 7"),
        (["echo", None], {}, "a command word is None"),
        (["true"], {"time_limit": "2 hours"}, "not a duration"),
        (["true"], {"time_limit": "2h", "time_limit_s": 7200}, "the same option"),
        (["true"], {"outputs": "*.pt"}, "outputs=['*.pt']"),
        (["true"], {"env": {"A": [1]}}, "`env` is [1]"),
    ],
)
def test_what_cannot_be_a_job_is_refused_with_the_right_form(
    own_home: Home, command: object, options: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        gofer.submit(command, **options)  # type: ignore[call-overload]
    assert words in f"{refusal.value.message} {refusal.value.hint}"
    assert len(traceback.extract_tb(refusal.value.__traceback__)) <= 3  # this test, submit, its session
    assert gofer.runs() == []


def test_an_unknown_keyword_names_the_known_one(own_home: Home) -> None:
    for wrong, right in (("gpu", "gpus"), ("prioritty", "priority"), ("timeout", "time_limit")):
        with pytest.raises(TypeError, match=f"`{wrong}`; did you mean `{right}`"):
            gofer.submit(["true"], **{wrong: 1})  # type: ignore[call-overload]


def test_a_run_shows_itself(own_home: Home) -> None:
    run = gofer.submit(["echo", "<b>"], name="show", code=False).wait()
    assert repr(run) == f"Run({run.id!r}, name='show', target='local', state='succeeded')"
    assert repr(gofer.Run("r361117-075534-33tz87")) == "Run('r361117-075534-33tz87')"
    page = run._repr_html_()
    assert "<td>succeeded</td>" in page and "&lt;b&gt;" in page and "<b>" not in page
    table = gofer.runs()
    assert page in table._repr_html_()  # type: ignore[attr-defined]


def test_files_tags_and_another_try(own_home: Home, tmp_path: Path) -> None:
    run = gofer.submit(["sh", "-c", "mkdir -p outputs; echo w > outputs/model.pt; echo x > x"]).wait()
    assert run.outputs() == ["outputs/model.pt", "x"]
    with gofer.open(f"{run.id}:outputs/model.pt") as file:
        assert file.read() == b"w\n"
    assert run.extract(tmp_path / "kept") == tmp_path / "kept"
    assert (tmp_path / "kept" / "files" / "x").read_text() == "x\n"
    with pytest.raises(UsageError, match="holds the run"):
        run.extract(tmp_path / "kept")
    assert run.tag({"good": "yes", "old": None}).tags == {"good": "yes"}
    again = run.resubmit(same_code=True).wait()
    assert again.id != run.id
    assert again.info()["resubmit_of"] == run.id
    assert again.state == "succeeded"


def test_following_a_log(own_home: Home) -> None:
    run = gofer.submit(["sh", "-c", "echo one; sleep 0.5; echo two"], code=False)
    assert "".join(run.follow()) == "one\ntwo\n"


def test_an_array(own_home: Home) -> None:
    group = gofer.submit(
        ["echo", "{lr}", "{note}"], code=False, each={"lr": [0.1, 0.01], "note": ["a, b", "it's"]}
    )
    group.wait()
    assert [row.logs() for row in group.rows()] == [
        f"{lr} {note}\n" for lr in (0.1, 0.01) for note in ("a, b", "it's")
    ]
    assert group.state == "succeeded"
    assert group.logs() == "[0] 0.1 a, b\n[1] 0.1 it's\n[2] 0.01 a, b\n[3] 0.01 it's\n"
    assert "".join(group.follow()) == group.logs()
    assert group.logs(grep="01.*it", since="1h") == "[3] 0.01 it's\n"


def test_finding_runs(own_home: Home) -> None:
    good = gofer.submit(["true"], code=False).wait()
    bad = gofer.submit(["false"], code=False).wait()
    assert [run.id for run in gofer.runs()] == [bad.id, good.id]
    assert [run.id for run in gofer.runs("state=failed")] == [bad.id]
    assert gofer.Run.find("last").id == bad.id
    assert gofer.Run.find(good.id[-6:]).id == good.id


def test_runs_of_a_cluster_that_is_away_are_those_last_seen(
    own_home: Home, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    ended = gofer.submit(["true"], code=False).wait()
    lost = a_run(id="r360921-150000-qqqqq2", state="running", backend="none-such", target="gone")
    with Ledger.open(Paths.from_environment({"GOFER_HOME": str(own_home.path)}).ledger_file) as ledger:
        store, now = ledger.resolve(ended.id).store, time.time()
        ledger.insert([lost._replace(store=store, submitted_at=now, observed_at=now - 7200)])
    assert [run.id for run in gofer.runs()] == [lost.id, ended.id]
    assert [run.state for run in gofer.runs("state=running")] == ["running"]
    assert gofer.Run(lost.id).info()["observed_at"] is not None
    assert capfd.readouterr() == ("", "")
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert all(record.message.endswith("showing the state from 2h00m ago") for record in caplog.records)


def test_errors_are_raised_and_nothing_is_printed(own_home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CheckFailed, match="no-such-program") as failure:
        gofer.submit(["no-such-program-here"])
    assert failure.value.hint
    with pytest.raises(UnknownName):
        gofer.submit(["true"], target="nowhere")
    with pytest.raises(gofer.GoferError):
        gofer.Run.find("last")
    gofer.submit(["true"], code=False).wait()
    assert capfd.readouterr() == ("", "")


def test_another_folder(own_home: Home, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "say.py").write_text("print('from the other folder')\n")
    run = gofer.submit(["python", "say.py"], folder=other).wait()
    assert run.logs() == "from the other folder\n"


def test_runs_may_be_used_from_any_thread(own_home: Home) -> None:
    run = gofer.submit(["sh", "-c", "sleep 0.3; echo done"], code=False)
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(run.wait(timeout_s=60).logs())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["done\n"] * 4


def test_importing_gofer_loads_nothing() -> None:
    words = "import sys; before = set(sys.modules); import gofer; print(sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "['__future__', 'gofer']\n"


def test_a_name_that_gofer_does_not_have() -> None:
    with pytest.raises(AttributeError, match="sumbit"):
        gofer.sumbit  # noqa: B018


def test_q_of_an_ended_run_loads_no_backend_and_no_code_of_nodes(own_home: Home) -> None:
    run = gofer.submit(["echo", "hello"], code=False).wait()
    program = "import sys; from gofer.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    argv = [sys.executable, "-c", program, "q", run.id]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("hello\n")
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "gofer.ops.logs.log_reader" in loaded
    heavy = {"gofer.backends.local.backend", "gofer.node.runner", "gofer.queue.database", "azure", "yaml"}
    assert loaded.isdisjoint({*heavy, "gofer.snapshot.capture", "hashlib"}), sorted(loaded)
