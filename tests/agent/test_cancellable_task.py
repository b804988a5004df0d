"""Work in a child process: done, failed, killed, stopped; and work on many items in several threads."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gofer.core.parallel import ProgressTally, each


def run(script: str, *words: str) -> str:
    """The output of a script that has `cancellable_task`, `keep_on` and `messages`. It runs in a process of
    its own, because the task forks.
    """
    lead = """
        import os, select, signal, sys, time
        from gofer.node import cancellable_task
        messages = []
        def keep_on(fd):
            select.select([fd], [], [], 10)
            return True
    """
    text = textwrap.dedent(lead) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", text, *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_messages_of_the_task_arrive_and_then_its_result() -> None:
    output = run("""
        def work(send):
            for number in range(3):
                send({"number": number, "pid": os.getpid()})
        cancellable_task.run(work, on_message=messages.append, keep_on=keep_on)
        print([one["number"] for one in messages], messages[0]["pid"] != os.getpid())
    """)
    assert output == "[0, 1, 2] True\n"


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("cancellable_task.WorkFailed('no such thing')", "no such thing"),
        ("OSError(28, 'No space left on device', '/x')", "/x: No space left on device"),
        ("ValueError('odd')", "odd"),
        ("KeyboardInterrupt()", "KeyboardInterrupt()"),
    ],
)
def test_an_error_of_the_task_arrives_as_a_message(raised: str, words: str) -> None:
    output = run(f"""
        def work(send):
            raise {raised}
        try:
            cancellable_task.run(work, on_message=messages.append, keep_on=keep_on)
        except cancellable_task.WorkFailed as error:
            print(error)
    """)
    assert output == f"{words}\n"


def test_a_child_that_is_killed_is_a_failure() -> None:
    output = run("""
        try:
            work = lambda send: os.kill(os.getpid(), signal.SIGKILL)
            cancellable_task.run(work, on_message=messages.append, keep_on=keep_on)
        except cancellable_task.WorkFailed as error:
            print(error)
    """)
    assert output == "its process was killed\n"


def test_stopping_ends_the_child_whatever_it_does() -> None:
    output = run("""
        def work(send):
            send({"pid": os.getpid()})
            time.sleep(1000)
        try:
            cancellable_task.run(work, on_message=messages.append, keep_on=lambda fd: keep_on(fd) and not
            messages)
        except cancellable_task.WorkStopped:
            print(os.path.exists(f"/proc/{messages[0]['pid']}"))
    """)
    assert output == "False\n"


def test_the_child_holds_no_descriptor_of_the_agent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = run(
        """
        held = os.open(sys.argv[1], os.O_RDONLY)
        def work(send):
            names = os.listdir("/proc/self/fd")
            send({"held": str(held) in names and os.path.exists(f"/proc/self/fd/{held}")
                 and os.readlink(f"/proc/self/fd/{held}") == sys.argv[1]})
        cancellable_task.run(work, on_message=messages.append, keep_on=keep_on)
        print(messages[0]["held"])
        """,
        str(tmp_path / "file"),
    )
    assert output == "False\n"


def test_each_item_is_done_once_and_few_are_held() -> None:
    taken, done, lock = 0, [], threading.Lock()
    gate = threading.Event()

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(100):
            taken = number
            if number == 20:
                gate.set()
            yield number

    def act(number: int) -> None:
        gate.wait(60)
        with lock:
            done.append(number)
            assert taken - len(done) <= 26, "more items are held than threads can do soon"

    each(items(), act, at_once=8)
    assert sorted(done) == list(range(100))


def test_the_first_error_is_raised_while_others_still_work() -> None:
    forever = threading.Event()

    def act(number: int) -> None:
        if number == 3:
            raise OSError("the third")
        forever.wait(60)

    with pytest.raises(OSError, match="the third"):
        each(range(1000), act, at_once=4)
    forever.set()


def test_an_error_of_the_items_is_raised() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        each(items(), lambda number: None, at_once=4)


def test_the_tally_says_what_is_known_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    output: list[dict[str, Any]] = []
    tally = ProgressTally(output.append)
    tally.add_file(10)
    tally.add_file(5)
    tally.add_moved(10)
    tally.add_moved(0, files=1)
    tally.report()
    assert output[0] == {"files": 0, "of_files": 1, "bytes": 0, "of_bytes": 10}
    assert output[-1] == {"files": 1, "of_files": 2, "bytes": 10, "of_bytes": 15}
    assert len(output) == 2, "it is output now and then, not every time"


def test_an_agent_waits_for_a_descriptor_or_a_request() -> None:
    output = run(f"""
        from gofer.node.watch import Watch
        watch = Watch(-1, lambda: None)
        watch.begin()
        reader, writer = os.pipe()
        os.write(writer, b"x")
        watch.wait(reader, 60)
        print(watch.cause, watch.is_firm)
        os.read(reader, 1)
        os.kill(os.getpid(), {signal.SIGRTMIN + 3})
        watch.wait(reader, 60)
        print(watch.cause, watch.is_firm)
    """)
    assert output == "None False\nuser True\n"
