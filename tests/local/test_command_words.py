"""The command is an argv: every word arrives as it was given, whatever is in it."""

from __future__ import annotations

import json
import os

import pytest
from home import Home

SHOW = "import json, os, sys; print(json.dumps([os.fsencode(w).hex() for w in sys.argv[1:]]))"

ODD_WORDS = [
    "plain",
    "two  blanks",
    "",
    " ",
    "line\nbreak\n",
    "tab\tbell\x07escape\x1b[31m",
    "'single' \"double\" `back` \\backslash\\",
    "$HOME ${HOME} $(id) $RANK",
    "*.py ? [a-z] {1..3} ~ #no ;&|<>()!",
    "{lr} {{x}} %s %(y)s",
    "-n",
    "--help",
    "--",
    "naïve 日本 😀",
    "x" * 20_000,
]


def words_of(text: str) -> list[str]:
    return [os.fsdecode(bytes.fromhex(one)) for one in json.loads(text)]


def test_blanks_and_variables_in_a_shell_command(home: Home) -> None:
    done = home.gofer("submit", "--no-code", "--follow", "sh", "-c", 'echo "$GOFER_RANK a  b"')
    assert done.out == "0 a  b\n"


def test_every_word_arrives_as_it_was_given(home: Home) -> None:
    run = home.finish("python", "-c", SHOW, *ODD_WORDS)
    assert run["state"] == "succeeded"
    assert words_of(home.log(run["id"])) == ODD_WORDS
    assert run["command"] == ["python", "-c", SHOW, *ODD_WORDS]


def test_words_behind_the_command_are_never_read_as_options(home: Home) -> None:
    words = ["-n", "3", "--json", "--name", "x", "-e", "A=B", "--", "-f"]
    home.configure("targets: {big: {kind: local, gpus: 2}}")
    done = home.gofer("-n", "2", "-c", "big", "submit", "--no-code", "--single", "--wait", "--json",
                      "python", "-c", SHOW, *words)  # fmt: skip
    run = json.loads(done.out)
    assert (run["gpus"], run["target"]) == (2, "big")
    assert words_of(home.log("last")) == words


@pytest.mark.parametrize("value", ["", "two  blanks", "a=b=c", "line\nbreak", "$HOME `id` 'q' \"q\"", "日本"])
def test_a_variable_arrives_as_it_was_given(home: Home, value: str) -> None:
    show = "import os; print(os.environb[b'ODD'].hex())"
    run = home.finish("-e", f"ODD={value}", "python", "-c", show)
    assert bytes.fromhex(home.log(run["id"]).strip()) == os.fsencode(value)


def test_the_environment_of_the_caller_reaches_the_command(home: Home) -> None:
    done = home.gofer(
        "submit", "--no-code", "-e", "TAKEN", "-f", "sh", "-c", 'echo "$TAKEN,$MINE,${GOFER_HOME-none}"',
        env={"TAKEN": "over", "MINE": "too"},
    )  # fmt: skip
    assert done.out == "over,too,none\n"


def test_bytes_in_the_callers_environment_that_are_no_text_stay_as_they_are(home: Home) -> None:
    show = "import os; print(os.environb[b'ODD'].hex())"
    done = home.gofer("submit", "--no-code", "-f", "python", "-c", show, env={"ODD": "\udcff\udc80 x"})
    assert done.out == "ff802078\n"


def test_a_script_runs_under_a_strict_bash(home: Home) -> None:
    job = home.folder / "job.yaml"
    script = 'script: |\n  echo "one  $GOFER_RANK"\n  x=\'a b\'\n  echo "$x"\n  false | true\n  echo never\n'
    job.write_text(script)
    run = home.finish("--job", str(job))
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit-code", 1)
    assert home.log(run["id"]) == "one  0\na b\n"
    job.write_text('script: |\n  echo "$no_such_variable"\n  echo never\n')
    run = home.finish("--job", str(job))
    assert (run["state"], run["exit_code"]) == ("failed", 1)
    assert "no_such_variable: unbound variable" in home.log(run["id"])
    assert "never" not in home.log(run["id"])


def test_a_command_in_a_job_file_keeps_its_words(home: Home) -> None:
    job = home.folder / "job.yaml"
    job.write_text(
        json.dumps({"command": ["python", "-c", SHOW, "a  b", "$HOME", "", "{x}", "\n"], "name": "odd"})
    )
    run = home.finish("--job", str(job))
    assert words_of(home.log(run["id"])) == ["a  b", "$HOME", "", "{x}", "\n"]
    assert run["name"] == "odd"


@pytest.mark.parametrize(
    "words",
    [
        ["bash", "-lc", "echo hi"],
        ["sh", "-ec", "echo hi"],
        ["bash", "-o", "pipefail", "-c", "echo hi"],
        ["python", "-Bc", "print('hi')"],
    ],
)
def test_a_text_for_an_interpreter_is_not_taken_for_a_script_file(home: Home, words: list[str]) -> None:
    run = home.finish(*words)
    assert run["state"] == "succeeded"
    assert home.log(run["id"]) == "hi\n"


def test_stdin_is_empty_and_stdout_and_stderr_share_the_log(home: Home) -> None:
    run = home.finish("sh", "-c", "cat; echo out; echo err >&2; echo out again")
    assert home.log(run["id"]) == "out\nerr\nout again\n"


def test_binary_output_is_kept_byte_for_byte(home: Home) -> None:
    run = home.finish("python", "-c", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)")
    (log,) = run["logs"]
    with open(log["path"], "rb") as file:
        assert file.read() == bytes(range(256)) * 300
