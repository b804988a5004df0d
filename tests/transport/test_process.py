"""Programs started on this machine: exact output and status, a time limit, nothing left behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gofer.errors import GoferError, Interrupted
from gofer.transport.process import run, start

HOSTILE = "a  b'\"$HOME`id`;\n*"


def test_output_status_and_words_are_exact(tmp_path: Path) -> None:
    code = "import sys, os; print(sys.argv[1], end=''); "
    code += "print(os.getcwd(), os.environ.get('X'), file=sys.stderr); sys.exit(3)"
    done = run([sys.executable, "-c", code, HOSTILE], timeout_s=60, cwd=tmp_path, env={"X": "y"})
    assert (done.status, done.stdout) == (3, HOSTILE.encode())
    assert done.stderr == f"{tmp_path.resolve()} y\n".encode()


def test_more_output_than_a_pipe_holds() -> None:
    done = run([sys.executable, "-c", "print('x' * 1_000_000)"], timeout_s=60)
    assert len(done.stdout) == 1_000_001


def test_the_input_is_empty() -> None:
    assert run([sys.executable, "-c", "print(repr(open(0).read()))"], timeout_s=60).stdout == b"''\n"


def test_a_signal_is_a_negative_status() -> None:
    assert run(["sh", "-c", "kill -9 $$"], timeout_s=60).status == -9


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(GoferError, match="cannot start `no-such-program`") as caught:
        run(["no-such-program"], timeout_s=60)
    assert caught.value.hint


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Interrupted, match=r"did not end within 5 s"):
        run(["sh", "-c", f"echo $$ > {tmp_path / 'pid'}; exec sleep 1000"], timeout_s=5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_leaving_the_block_ends_what_still_runs() -> None:
    with start(
        [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(300)"]
    ) as running:
        pid = running._process.pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
