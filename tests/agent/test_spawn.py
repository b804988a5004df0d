"""Starting one process: exactly as asked, at most once, and with words when it cannot be."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gofer.node import spawn

ENVIRON = {"PATH": os.environ.get("PATH", os.defpath), "X": "a  b"}


def command(log: Path, *argv: str, fenced: bool = True) -> spawn.RankCommand:
    return spawn.RankCommand(list(argv), ENVIRON, str(log), fenced)


def finish(one: spawn.RankCommand) -> int:
    """The wait status of the started process."""
    _, status = os.waitpid(spawn.start(one), 0)
    return status


def test_output_environment_and_session(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    script = 'echo "$X"; echo err >&2; cat; env | wc -l; ps -o sid= -p $$ | tr -d " "; echo $$'
    assert finish(command(log, "sh", "-c", script)) == 0
    value, err, _, session, pid = log.read_text().splitlines()
    assert (value, err) == ("a  b", "err")
    assert session == pid


def test_a_log_that_is_there_keeps_the_command_from_being_started(tmp_path: Path) -> None:
    log, mark = tmp_path / "rank-0.log", tmp_path / "mark"
    log.write_text("of an earlier start\n")
    with pytest.raises(spawn.AlreadyStarted):
        spawn.start(command(log, "touch", str(mark)))
    assert log.read_text() == "of an earlier start\n"
    assert not mark.exists()


def test_without_the_fence_the_log_grows(tmp_path: Path) -> None:
    log = tmp_path / "setup.log"
    for word in ("one", "two"):
        assert finish(command(log, "echo", word, fenced=False)) == 0
    assert log.read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("no-such-program-here", 127, "No such file or directory"),
        ("/no/such/program", 127, "No such file or directory"),
        ("/etc/passwd/below-a-file", 127, "Not a directory"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/etc", 126, "Permission denied"),
    ],
)
def test_a_program_that_cannot_be_run(tmp_path: Path, program: str, status: int, words: str) -> None:
    log = tmp_path / "rank-0.log"
    with pytest.raises(spawn.CannotRun, match=words) as failure:
        spawn.start(command(log, program))
    assert failure.value.status == status
    assert log.read_text() == f"gofer: cannot run `{program}`: {words}\n"
    # It counts as started: another try would fail in the same way.
    with pytest.raises(spawn.AlreadyStarted):
        spawn.start(command(log, "true"))


def test_the_search_path_is_the_commands_own(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    (tmp_path / "first" / "tool").mkdir(parents=True)  # a folder of that name is no program
    log = tmp_path / "log"
    environ = {"PATH": f"{tmp_path / 'first'}:{tool.parent}:/usr/bin:/bin"}
    assert finish(spawn.RankCommand(["tool"], environ, str(log), True)) == 0
    assert log.read_text() == "mine\n"


def test_signals_are_as_a_program_expects_them(tmp_path: Path) -> None:
    """Whatever the agent ignores or blocks, the command starts with the defaults."""
    ignored = {
        number: signal.signal(number, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGHUP)
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
    try:
        log = tmp_path / "log"
        assert finish(command(log, "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")) == 0
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGUSR1])
        for number, handler in ignored.items():
            signal.signal(number, handler)
    masks = [int(line.split()[1], 16) for line in log.read_text().splitlines()]
    used = sum(1 << (number - 1) for number in (1, 2, 10, 12, 13, 15, 17))
    assert [mask & used for mask in masks] == [0, 0]
