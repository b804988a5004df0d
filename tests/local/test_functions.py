"""Functions as jobs on this machine: `gofer.submit(function, …)` and `run.result()`."""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from home import Home
from pythons import pythons

import gofer
from gofer.errors import GoferError, ResultError, UsageError

# A module of a project, for functions that are sent by name. Functions of the tests go along whole.
MODULE = """
import os

def add(a, b=0):
    print("adding in", os.path.basename(os.getcwd()))
    return a + b

class Wrong(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

def fail(word):
    raise Wrong(word, word)
"""


@pytest.fixture
def own_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home that this very process uses, whose project has a module in a folder with an odd name."""
    monkeypatch.setenv("GOFER_HOME", str(home.path))
    folder = home.folder / "söme folder"
    folder.mkdir()
    (folder / "arithmetic.py").write_text(MODULE)
    monkeypatch.chdir(home.folder)
    monkeypatch.syspath_prepend(str(folder))
    yield home
    sys.modules.pop("arithmetic", None)


def local(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one of the program itself: it is then sent whole, and its module is not needed."""
    function.__module__ = "__main__"
    return function


def test_a_function_of_a_module_runs_with_the_code_of_its_submission(own_home: Home) -> None:
    import arithmetic  # type: ignore[import-not-found]

    path = own_home.folder / "söme folder" / "arithmetic.py"
    run = gofer.submit(arithmetic.add, 2, b=40)
    path.write_text("def add(a, b): return None\n")
    assert run.result(timeout_s=60) == 42
    assert (run.state, run.name) == ("succeeded", "add")
    assert run.command == [sys.executable, "function.zip", "arithmetic.add"]
    assert gofer.Run.find("add").result() == 42
    assert run.results() == [42]


def test_what_a_function_raises_is_raised_here_with_its_traceback(own_home: Home) -> None:
    def fail(word: str) -> None:
        raise LookupError(word)

    run = gofer.submit(local(fail), "nothing there")
    with pytest.raises(LookupError, match="nothing there") as failure:
        run.result()
    text = str(failure.value.__cause__)
    assert (
        text.count("File ") == 1 and ", in fail" in text and text.endswith('LookupError: nothing there\n"""')
    )
    assert run.id[-6:] in failure.value.__notes__[0]
    why = own_home.gofer("why", run.id).out
    assert ", in fail" in why and "LookupError: nothing there" in why
    assert run.exit_code == 1


def test_an_exception_that_no_pickle_brings_back_is_a_run_that_failed(own_home: Home) -> None:
    import arithmetic

    with pytest.raises(gofer.RunFailed, match="failed: Wrong: x and x") as failure:
        gofer.submit(arithmetic.fail, "x").result()
    assert failure.value.traceback and ", in fail" in failure.value.traceback


def exit_with(status: object) -> None:
    sys.exit(status)  # type: ignore[arg-type]


def interrupt() -> None:
    raise KeyboardInterrupt


def kill() -> None:
    os.kill(os.getpid(), 9)


def lock() -> object:
    return threading.Lock()


def test_ends_that_are_no_exception(own_home: Home) -> None:
    assert gofer.submit(local(exit_with), 0).result() is None
    for call, words, status in (
        ((exit_with, 3), r"`exit_with` called sys.exit\(3\)", 3),
        ((exit_with, "words"), r"`exit_with` called sys.exit\('words'\)", 1),
        ((interrupt,), "KeyboardInterrupt", 130),
        ((lock,), "the result of `lock` is a `lock`, which cannot be pickled: cannot pickle", 1),
        ((kill,), "killed|SIGKILL|signal", None),
    ):
        run = gofer.submit(local(call[0]), *call[1:])
        with pytest.raises(gofer.RunFailed, match=words):
            run.result()
        assert status is None or run.exit_code == status


def test_closures_lambdas_partials_and_classes_of_the_program(own_home: Home) -> None:
    @local
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    offset = 7
    assert gofer.submit(local(lambda x: x + offset), 1).result() == 8
    assert gofer.submit(functools.partial(max, 3), 2).result() == 3
    found = gofer.submit(Point, 5).result()
    assert (type(found), found.x) == (Point, 5)


def test_a_large_result(own_home: Home) -> None:
    size = 100 << 20
    assert gofer.submit(local(lambda: b"\1" * size)).result() == b"\1" * size


def test_the_key_is_nowhere_but_in_the_ledger(own_home: Home) -> None:
    @local
    def read_environment() -> tuple[bool, str]:
        seen = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
        return "GOFER_RESULT_KEY" in os.environ, seen

    run = gofer.submit(read_environment)
    has_key, environment = run.result()
    assert not has_key and "GOFER_RESULT_KEY" not in environment and "GOFER_RANK" in environment
    with contextlib.closing(sqlite3.connect(next(own_home.path.rglob("ledger.db")))) as ledger:
        (key,) = ledger.execute("SELECT key FROM result_keys WHERE id = ?", [run.id]).fetchone()
    assert len(key) == 32
    for path in own_home.root.rglob("*"):
        if path.is_file() and not path.name.startswith("ledger.db"):
            data = path.read_bytes()
            assert key not in data and key.hex().encode() not in data, path


def result_file(home: Home, run: gofer.Run) -> Path:
    (path,) = home.path.rglob(f"{run.id}/outputs/gofer-result-0.pkl")
    return path


def test_a_result_that_the_run_did_not_write_is_refused(own_home: Home) -> None:
    one, two = (gofer.submit(local(lambda x: x), text) for text in ("aaaaaaaa", "bbbbbbbb"))
    assert (one.result(), two.result()) == ("aaaaaaaa", "bbbbbbbb")
    path = result_file(own_home, one)
    whole = path.read_bytes()
    for changed, words in (
        (whole.replace(b"aaaaaaaa", b"aaaaaaab"), "its signature is not that of the run"),
        (whole.replace(b'"rank": 0', b'"rank": 1'), "its signature"),
        (whole[:-1], "its signature"),
        (b"", "cut off"),
        (result_file(own_home, two).read_bytes(), "its signature"),
    ):
        path.write_bytes(changed)
        with pytest.raises(
            ResultError, match=f"the result of {one.id[-6:]} is refused: .*{words}"
        ) as refusal:
            one.result()
        assert "gofer resubmit" in (refusal.value.hint or "")
    path.unlink()
    with pytest.raises(ResultError, match="is not in the store"):
        one.result()


def test_a_result_of_another_row_is_refused(own_home: Home) -> None:
    group = gofer.map(local(lambda x: x), ["one", "two"])
    assert group.results() == ["one", "two"]
    first, second = group.rows()
    result_file(own_home, first).write_bytes(result_file(own_home, second).read_bytes())
    with pytest.raises(ResultError, match=f"refused: it is that of rank 0 of {second.id}"):
        group.results()


def test_a_function_that_was_changed_in_the_store_does_not_run(own_home: Home) -> None:
    own_home.configure("targets: {two: {kind: local, gpus: 1}}")
    held = gofer.job(target="two", gpus=1, code=False).submit(
        ["sh", "-c", "until [ -e go ]; do sleep 0.05; done"]
    )
    run = gofer.job(target="two", gpus=1).submit(local(lambda: 1))
    (path,) = own_home.path.rglob(f"{run.id}/function.zip")
    path.write_bytes(path.read_bytes().replace(b"import sys", b"import os;", 1))
    held.abort(grace_s=0)
    with pytest.raises(gofer.RunFailed, match="is not the function that was submitted"):
        run.result()


def test_without_the_ledger_of_the_submission_nothing_is_loaded(own_home: Home) -> None:
    run = gofer.submit(local(lambda: 1)).wait()
    with contextlib.closing(sqlite3.connect(next(own_home.path.rglob("ledger.db")))) as ledger, ledger:
        ledger.execute("DELETE FROM result_keys")
    with pytest.raises(ResultError, match="the ledger has no key"):
        run.result()
    again = run.resubmit()
    assert again.result() == 1


def test_a_resubmitted_function_has_a_result_of_its_own(own_home: Home) -> None:
    run = gofer.submit(local(lambda: os.environ["GOFER_RUN_ID"])).wait()
    again = run.resubmit(same_code=True)
    assert (run.result(), again.result()) == (run.id, again.id)
    own_home.gofer("resubmit", run.id)
    assert gofer.Run.find("last").result() == gofer.Run.find("last").id


@pytest.mark.parametrize("version", ["3.8", "3.12", "3.13"])
def test_another_python_says_what_to_do(
    own_home: Home, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(sys, "executable", str(pythons(version)[0]))  # that of the supervisor and of the run
    run = gofer.submit(local(lambda: 1))
    with pytest.raises(gofer.RunFailed, match=rf"this run has Python {version} .*give the run Python 3\."):
        run.result()
    assert run.exit_code == 1


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (((lambda: 1), {"gpus": 8}), TypeError, "lambda` takes no keyword `gpus`; as an option of the job"),
        ((lambda **more: 1, {"gpus": 8}), UsageError, "lambda, …), or for the function functools.partial("),
        ((lambda a: 1, {}), TypeError, "lambda` cannot be called so: missing a required argument: 'a'"),
        ((lambda a: 1, {"a": threading.Lock()}), UsageError, "lambda` cannot be sent: cannot pickle"),
        ((b"x".join, {}), TypeError, "missing a required argument"),
    ],
)
def test_what_cannot_be_called_is_refused_at_once(
    own_home: Home, given: tuple[Callable[..., Any], dict[str, Any]], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as refusal:
        gofer.submit(given[0], **given[1])
    assert words in f"{refusal.value} {getattr(refusal.value, 'hint', '')}"
    assert gofer.runs() == []


def test_a_coroutine_and_a_generator_are_refused(own_home: Home) -> None:
    async def later() -> None: ...

    def many() -> Any:
        yield 1

    for function, words in ((later, "coroutine"), (many, "generator")):
        with pytest.raises(UsageError, match=words):
            gofer.submit(function)


def test_the_result_of_a_command_is_refused(own_home: Home) -> None:
    run = gofer.submit(["true"], code=False)
    with pytest.raises(UsageError, match=r"is a command and has no result: `true`"):
        run.result()


def test_all_ranks_have_results(own_home: Home) -> None:
    @local
    def rank(bad: int) -> str:
        if int(os.environ["RANK"]) == bad:
            raise ValueError(f"rank {bad}")
        return os.environ["RANK"]

    lab = gofer.job(procs=3)
    run = lab.submit(rank, 9)
    assert (run.result(), run.results()) == ("0", ["0", "1", "2"])
    with pytest.raises(ValueError, match="rank 2"):
        lab.submit(rank, 2).result()


def test_without_cloudpickle_the_error_names_the_line_to_type(
    own_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(GoferError, match="not installed") as refusal:
        gofer.submit(local(lambda: 1))
    assert refusal.value.hint == "`pip install 'gofer[functions]'`"


def test_a_wait_for_a_result_has_a_limit(own_home: Home) -> None:
    run = gofer.submit(time.sleep, 1000)
    with pytest.raises(TimeoutError):
        run.result(timeout_s=0.1)
    run.abort(grace_s=0)
    with pytest.raises(gofer.RunFailed, match="was cancelled"):
        run.result()


def test_map_keeps_the_order_and_gives_exceptions_on_request(own_home: Home) -> None:
    @local
    def divide(a: int, b: int) -> float:
        return a / b

    group = gofer.job(name="halves", tags={"t": 1}).map(divide, [4, 1, 9], [2, 0, 3])
    good, bad, last = group.results(return_exceptions=True)
    assert (good, last) == (2.0, 3.0) and isinstance(bad, ZeroDivisionError)
    with pytest.raises(ZeroDivisionError) as failure:
        group.results()
    assert f"{group.id[-6:]}-1" in failure.value.__notes__[0]
    with pytest.raises(UsageError, match="a group of 3 runs"):
        group.result()
    assert [row.info()["args"] for row in group.rows()][1] == {"row": "1", "a": "1", "b": "0"}
    listed = own_home.gofer("list", "runs", "--rows", "--filter", "arg.b=3", "--columns", "id,state").out
    assert f"{group.id[-6:]}-2" in listed and len(listed.splitlines()) == 2
    again = group.resubmit(failed_only=True)
    assert [type(one) for one in again.results(return_exceptions=True)] == [ZeroDivisionError]
    assert [row.info()["args"]["row"] for row in again.rows()] == ["1"]


def test_a_later_attempt_replaces_the_result_of_an_earlier_one(own_home: Home) -> None:
    @local
    def flaky() -> str:
        if os.environ["GOFER_ATTEMPT"] == "1":
            raise OSError("the first attempt")
        return os.environ["GOFER_ATTEMPT"]

    assert gofer.job(retries=1, retry_on=["exit-code"]).submit(flaky).result() == "2"


def test_a_module_that_does_not_go_along_is_named(own_home: Home) -> None:
    import arithmetic

    run = gofer.job(code=False).submit(arithmetic.add, 1)
    with pytest.raises(
        gofer.RunFailed, match="No module named 'arithmetic'; the module has to be in the code"
    ):
        run.result()


def test_the_line_that_repeats_a_function_is_one_of_python(own_home: Home) -> None:
    run = gofer.job(time_limit=1, grace=0).submit(time.sleep, 1000)
    with pytest.raises(gofer.RunFailed) as failure:
        run.result()
    assert failure.value.hint == "`gofer.job(target='local', time_limit='2s').submit(time.sleep, …)`"


def test_map_of_nothing_and_with_options_is_refused(own_home: Home) -> None:
    with pytest.raises(UsageError, match="there is no item to call `abs` for"):
        gofer.map(abs, [])
    with pytest.raises(UsageError) as refusal:
        gofer.map(abs, [1], gpus=1)
    assert refusal.value.hint == "gofer.job(gpus=1).map(…) has options"
