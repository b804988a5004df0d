"""Values that once ended in an unexpected error: each is refused in words, or works."""

from __future__ import annotations

import subprocess
import sys

import pytest
from home import Home

REFUSED: dict[str, list[str]] = {
    "has too many values": ["submit", "--dry-run", "--each", f"a=1..{'9' * 5000}", "true"],
    "a line must name at least one column": ["submit", "--dry-run", "--array", "t.jsonl", "echo", "x"],
    "is not a regular expression": ["list", "runs", "--filter", "name~" + "(" * 500],
    "` is too long a duration": ["submit", "--dry-run", "--time-limit", f"{'9' * 5002}:00", "true"],
    "is too long a duration": ["url", "--expires", "9223372036854775807", "data/x"],
    "does not exist": ["submit", "--dry-run", "./" + "a" * 5000],
    "there is no program": ["submit", "--dry-run", "a" * 5000],
}


@pytest.mark.parametrize("words", REFUSED)
def test_it_is_refused_in_words(home: Home, words: str) -> None:
    (home.folder / "t.jsonl").write_text('{}\n{"lr": 1}\n')
    done = home.gofer(*REFUSED[words], status=None)
    assert done.status in (1, 2)
    assert words in done.err
    assert "unexpected" not in done.err


def test_large_numbers_and_late_days_are_taken(home: Home) -> None:
    home.finish("true")
    assert len(home.gofer("list", "runs", "--last", str(2**64)).out.splitlines()) == 2
    assert len(home.gofer("list", "runs", "--filter", "submitted<9999-12-31").out.splitlines()) == 2
    assert "no run" in home.gofer("list", "runs", "--filter", "submitted=9999-12-31").err
    home.gofer("config", "import", "--out", "a" * 5000, status=None)
    home.gofer("list", "runs", env={"AML_CONFIG_PATH": "/" + "a" * 5000}, status=None)
    home.gofer(env={"COMP_CWORD": "x", "COMP_WORDS": "gofer", "_GOFER_COMPLETE": "bash_complete"})
    home.gofer(env={"COMP_CWORD": "x", "_GOFER_COMPLETE": "bash_complete"})
    home.gofer(env={"COMP_CWORD": "\t", "COMP_WORDS": "gofer target", "_GOFER_COMPLETE": "fish_complete"})


def test_a_regular_expression_that_never_ends_is_stopped(home: Home) -> None:
    home.finish("true", "a" * 60 + "!")
    done = home.gofer("list", "runs", "--filter", "command~(a+)+$", status=2)
    assert "took more than 5 s" in done.err
    assert len(home.gofer("list", "runs", "--filter", "command~a+").out.splitlines()) == 2


IN_A_THREAD = """
import threading, gofer
def search(pattern):
    try:
        print(len(gofer.runs(f"command~{pattern}")))
    except gofer.GoferError as error:
        print(error)
for pattern in ("a+", "(a+)+$", "b"):
    thread = threading.Thread(target=search, args=(pattern,))
    thread.start()
    thread.join()
"""


def test_a_regular_expression_is_stopped_in_other_threads_too(home: Home) -> None:
    home.finish("true", "a" * 60 + "!")
    argv = [sys.executable, "-c", IN_A_THREAD]
    found = subprocess.check_output(argv, cwd=home.folder, env=home.environ, text=True, timeout=120)
    assert found.splitlines() == ["1", "the regular expression of a `~` filter took more than 5 s", "0"]


@pytest.mark.parametrize(
    "text",
    [
        'targets: {s: {kind: slurm, partition: "a\\n"}}',
        'targets: {s: {kind: slurm, python: "python3\\n"}}',
        'targets: {s: {kind: ssh, hosts: ["h\\n"]}}',
        'targets: {s: {kind: ssh, hosts: [h], python: "p\\n"}}',
        'job: {tags: {"a\\n": x}}',
    ],
)
def test_a_newline_at_the_end_of_a_word_is_refused(home: Home, text: str) -> None:
    (home.folder / "gofer.yaml").write_text(text + "\n")
    done = home.gofer("config", "show", status=2)
    assert "gofer.yaml:1" in done.err
