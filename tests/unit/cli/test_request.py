"""From the words of `gofer submit` to the request, through the real parser."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from gofer.cli.commands.runs.submit import command
from gofer.cli.request import SubmitOptions, build_request, misplaced_option, read_environment, read_tags
from gofer.config.jobs import JobFlags
from gofer.errors import UsageError
from gofer.ops.submission.submit import SubmitRequest


def _parsed(*words: str) -> SubmitOptions:
    return cast("SubmitOptions", command.make_context("submit", list(words)).params)


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


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("python train.py -n 2", "`-n 2` is passed to `train.py`"),
        ("python -u train.py data --gpus=2", "`--gpus=2` is passed to `train.py`"),
        ("bash run.sh -f", "`-f` is passed to `run.sh`"),
        ("./run.sh --time-limit 2h", "`--time-limit 2h` is passed to `./run.sh`"),
        ("train.py --wait", "`--wait` is passed to `train.py`"),
        ("torchrun --standalone train.py -n 2", "`-n 2` is passed to `train.py`"),
        ("python -m lib.tool -n 2", "`-n 2` is passed to `lib/tool.py`"),
        ("python -m json.tool -n 2", None),
        ("python knows.py --gpus 2", None),
        ("python knows.py --time-limit 2h", None),
        ("python train.py --lr 1 -n 2", None),
        ("python missing.py -n 2", None),
        ("python -c pass -n 2", None),
        ("sort -n 2", None),
        ("./program -n 2", None),
        ("./program -c pass", None),
        ("python train.py", None),
    ],
)
def test_an_option_of_gofer_after_the_command_is_named(words: str, shown: str | None, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nprint(sys.argv)\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "program").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "lib/tool.py").touch()
    (tmp_path / "run.sh").write_text('python train.py "$@"\n')
    (tmp_path / "knows.py").write_text('parser.add_argument("--gpus")\nclass Args:\n    time_limit: str\n')
    note = misplaced_option(words.split(), tmp_path)
    assert note == (shown and f"note: {shown}; gofer's own options come before the command")
