"""From the words of `gofer submit` to the request, through the real parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gofer.cli.commands.runs.submit import command
from gofer.cli.request import build_request, read_environment, read_tags
from gofer.config.jobs import JobFlags
from gofer.errors import UsageError
from gofer.ops.submission.submit import SubmitRequest


def _parsed(*words: str) -> dict[str, Any]:
    return command.make_context("submit", list(words)).params


def test_a_bare_command() -> None:
    assert build_request(_parsed("ls")) == SubmitRequest(command=("ls",))


def test_all_the_options() -> None:
    words = (
        "-c lab -n 8 -N 2 --procs 4 --cpus 3 --single --name x --tag a=b=c --tag d -e K=V -e E= --setup s "
        "--priority -5 --time-limit 1h30m --grace 5 --retries 2 --retry-on preempted,signal --job j.yaml "
        "--each lr=1,2 --array a.csv --no-code python train.py -n 3 --json"
    )
    request = build_request(_parsed(*words.split()))
    assert request == SubmitRequest(
        flags=JobFlags(
            name="x",
            gpus=8,
            nodes=2,
            procs=4,
            cpus=3,
            env={"K": "V", "E": ""},
            tags={"a": "b=c", "d": ""},
            setup="s",
            time_limit_s=5400.0,
            grace_s=5.0,
            retries=2,
            retry_on=("preempted", "signal"),
            priority=-5,
            multi_process=False,
        ),
        command=("python", "train.py", "-n", "3", "--json"),
        target="lab",
        job_file=Path("j.yaml"),
        each=("lr=1,2",),
        array_file=Path("a.csv"),
        code=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", 'echo "$RANK a  b"'],
        ["--", "-x", "--", "y"],
        ["python", "-c", "print('\n')", "", " "],
        ["./run.sh", "--help"],
    ],
)
def test_the_command_is_kept_word_for_word(words: list[str]) -> None:
    expected = words[1:] if words[0] == "--" else words
    assert build_request(_parsed(*words)).command == tuple(expected)


def test_a_variable_without_a_value_is_taken_from_here() -> None:
    assert read_environment(["HERE", "OTHER=x"], {"HERE": "now"}) == {"HERE": "${env:HERE}", "OTHER": "x"}
    with pytest.raises(UsageError, match="`-e GONE` asks for a variable that is not set here"):
        read_environment(["GONE"], {})


def test_a_tag_needs_a_name() -> None:
    assert read_tags(["a=1", "b", "a=2"]) == {"a": "2", "b": ""}
    with pytest.raises(UsageError, match="has no name"):
        read_tags(["=1"])


@pytest.mark.parametrize(
    ("words", "sync"),
    [((), None), (("--sync", "*.a", "--sync", "b/*"), ("*.a", "b/*")), (("--sync", ""), ())],
)
def test_outputs_to_send_while_it_runs(words: tuple[str, ...], sync: tuple[str, ...] | None) -> None:
    assert build_request(_parsed(*words, "ls")).flags.sync == sync
