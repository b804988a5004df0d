"""What of a log reaches a terminal, and that all of it reaches a pipe."""

from __future__ import annotations

import io
import json
import re
import subprocess

import pytest
from home import Home
from hypothesis import given
from hypothesis import strategies as st
from terminal import Terminal

from gofer.cli.output.terminal_text import TerminalStream, TerminalText

HARMFUL = {
    "clipboard": b"\x1b]52;c;aGFjaw==\x07",
    "title": b"\x1b]0;title\x1b\\",
    "cursor": b"\x1b[2A\x1b[1;1H\x1b[2K",
    "reset": b"\x1bc",
    "charset": b"\x1b(0",
    "device": b"\x1bP1$r0m\x1b\\",
    "report": b"\x1b[6n",
    "c1": "\x9b31m\x9d0;x\x9c".encode(),
    "backspace": b"\x08\x08",
    "bell": b"\x07\x00\x0e",
}


def cleaned(*pieces: bytes) -> bytes:
    text = TerminalText()
    return b"".join(text.clean(piece) for piece in pieces)


@pytest.mark.parametrize("name", HARMFUL)
def test_what_a_terminal_would_obey_is_left_out(name: str) -> None:
    shown = cleaned(b"before " + HARMFUL[name] + b" after\n")
    assert shown.startswith(b"before ")
    assert shown.endswith(b" after\n")
    assert all(character.isprintable() for character in shown.decode().rstrip("\n"))


def test_colours_tabs_and_bars_pass() -> None:
    line = "\x1b[1;31mred\x1b[0m\ttab\r 50%|█████     |\r100%\n".encode()
    assert cleaned(line) == line


@given(st.binary(max_size=60), st.integers(0, 60))
def test_no_piece_boundary_lets_a_sequence_through(tail: bytes, at: int) -> None:
    data = b"a\x1b]52;c;aGk=\x07b\x1b[5Ac" + tail
    shown = cleaned(data[:at], data[at:])
    assert b"\x1b]" not in shown
    assert b"\x1b[5A" not in shown
    assert shown == cleaned(data)


def test_a_sequence_that_never_ends_hides_nothing_for_long() -> None:
    text = TerminalText()
    text.clean(b"\x1b]0;" + b"x" * 5000)
    assert text.clean(b"visible\n") == b"visible\n"


def test_a_log_on_a_terminal_and_in_a_pipe(home: Home) -> None:
    run = home.submit("printf", r"one\033]52;c;aGFjaw==\007two\n")
    home.wait(run)
    assert home.log(run) == "one\x1b]52;c;aGFjaw==\x07two\n"
    with Terminal(home.argv("logs", run), cwd=home.folder, env=home.environ) as terminal:
        assert terminal.end() == 0
    assert "onetwo" in terminal.shown
    assert "\x1b]52" not in terminal.shown


def test_a_message_never_continues_the_last_line_of_a_log(home: Home) -> None:
    # Rank 1 fails only after rank 0 has printed: a failed rank stops the others at once.
    flag = '"$GOFER_OUTPUT_DIR/printed"'
    bar = f"printf 'step 1\\rstep 2'; test $RANK = 0 && touch {flag}; until [ -e {flag} ]; do sleep 0.1; done"
    bar += "; exit $RANK"
    with Terminal(
        home.argv("submit", "-f", "--procs", "2", "sh", "-c", bar), cwd=home.folder, env=home.environ
    ) as terminal:
        assert terminal.end() == 1
    assert "step 2\r\nrank 1 on node 0 failed first" in terminal.shown
    # Elsewhere than on stderr the log stays as the command wrote it.
    done = home.gofer("submit", "-f", "printf", "half")
    assert done.out == "half"
    assert "\n\n" not in done.err


# A clipboard sequence with 7-bit and with 8-bit controls, and a mark that turns the order of letters round.
HOSTILE = "\x1b]52;c;aGk=\x07\x9d52;c;aGk=\x9c\x7f\u202e"
VERBS = [
    "list runs --columns tags",
    "list runs --json",
    "q RUN",
    "q RUN --json",
    "why RUN",
    "why RUN --json",
    "tag RUN",
]


@pytest.fixture
def poisoned(home: Home) -> str:
    """A run whose record, tags, end and log say what a terminal would obey."""
    run = str(home.finish("sh", "-c", "exit 3")["id"])
    folder = home.path / "store" / "runs" / run
    record = json.loads((folder / "run.json").read_text())
    record = {**record, "name": f"n{HOSTILE}", "submitted_by": f"u{HOSTILE}"}
    record["job"]["command"].append(HOSTILE)
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "tags.json").write_text(json.dumps({f"k{HOSTILE}": f"v{HOSTILE}"}))
    end = json.loads((folder / "ends.jsonl").read_text())
    (folder / "ends.jsonl").write_text(json.dumps({**end, "detail": f"d{HOSTILE}"}) + "\n")
    (node,) = folder.rglob("exit.json")
    ended = json.loads(node.read_text())
    node.write_text(json.dumps({**ended, "first_failure": {**ended["first_failure"], "tail": [HOSTILE]}}))
    home.gofer("ledger", "rebuild")
    return run


@pytest.mark.parametrize("words", VERBS)
def test_no_field_of_a_record_is_obeyed_by_a_terminal(home: Home, poisoned: str, words: str) -> None:
    argv = home.argv(*words.replace("RUN", poisoned).split())
    with Terminal(argv, cwd=home.folder, env=home.environ) as terminal:
        assert terminal.end() == 0
    shown = re.sub(r"\x1b\[[0-9;:]*m", "", terminal.shown)
    assert {letter for letter in shown if not letter.isprintable()} <= set("\r\n")
    assert "52;c;aGk=" in shown  # the field is there
    if words.endswith("--json"):
        piped = home.gofer(*words.replace("RUN", poisoned).split()).out
        assert json.loads(terminal.shown) == json.loads(piped)


def test_no_field_of_a_record_breaks_the_completion_of_a_shell(home: Home, poisoned: str) -> None:
    question = {"_GOFER_COMPLETE": "zsh_complete", "COMP_WORDS": "gofer q r", "COMP_CWORD": "2"}
    done = subprocess.run(
        home.argv(), env={**home.environ, **question}, cwd=home.folder, capture_output=True, check=True
    )
    kind, name, words = done.stdout.decode().splitlines()
    assert kind == "plain"
    assert name in (poisoned, poisoned[-6:])  # the short id where that begins with `r` too
    assert words.isprintable()


def test_text_of_gofers_own_keeps_its_colours_and_bars() -> None:
    buffer = io.BytesIO()
    stream = TerminalStream(buffer, encoding="utf-8")
    own = "\x1b[32mgrün\x1b[0m\t█ 50 %\r\x1b[K\n"
    assert stream.write(own) == len(own)
    stream.write("\x9b\x07\U000e0001\x1b]")
    stream.flush()
    assert buffer.getvalue().decode() == own + r"\u009b\u0007\udb40\udc01\u001b]"
