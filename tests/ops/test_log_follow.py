"""Following a log gives each byte once, over attempts, however the writer and the reader interleave."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.ops.counting_store import CountingStore
from unit.ops.run_folders import RunFolder

from gofer.errors import StoreError
from gofer.ops.logs.log_bytes import StoredLog
from gofer.ops.logs.log_follow import Followed, Follower, SetupView
from gofer.ops.runs.run_folder import attempt_numbers, list_logs
from gofer.storage.base import Store
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore

RUN = "r261116-091233-k9qd4x"


def followed(
    store: Store, is_over: Callable[[int], bool], said: list[str], attempt: int | None = None
) -> Followed:
    def locate(number: int, is_over: bool) -> StoredLog | None:
        logs = (log for log in list_logs(store, RUN, number) if log.rank == 0 or is_over)
        return next((StoredLog(store, log.key) for log in logs), None)

    return Followed(
        lambda: attempt_numbers(store, RUN),
        locate,
        is_over,
        lambda message: said.append(str(message)),
        attempt,
    )


def test_every_byte_once_over_two_attempts(tmp_path: Path) -> None:
    store = FileStore(tmp_path, create=True)
    folder = RunFolder(store, RUN)
    over = threading.Event()
    messages: list[str] = []
    first = b"".join(b"one %d \xff\r\n" % number for number in range(300))
    second = b"".join(b"two %d\n" % number for number in range(300)) + b"torn"

    def write() -> None:
        for number, data in ((1, first), (2, second)):
            for at in range(0, len(data), 37):
                folder.log(data[at : at + 37], attempt=number)
                if at % 740 == 0:
                    time.sleep(0.01)
        over.set()

    thread = threading.Thread(target=write)
    thread.start()
    got = b"".join(Follower(followed(store, lambda _: over.is_set(), messages), lines=None))
    thread.join()
    assert got == first + second
    assert messages == ["attempt 1 is over; following attempt 2"]


def test_a_writing_process(tmp_path: Path) -> None:
    """The end is known only by the process's end; what it wrote last must still be read."""
    store = FileStore(tmp_path, create=True)
    path = tmp_path / RunFolder(store, RUN).log(b"")
    program = (
        "import sys, time\n"
        "with open(sys.argv[1], 'ab', buffering=0) as file:\n"
        "    for number in range(2000):\n"
        "        file.write(b'%d\\n' % number)\n"
        "        if number % 200 == 0: time.sleep(0.02)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(path)])
    try:
        got = b"".join(Follower(followed(store, lambda _: writer.poll() is not None, []), lines=None))
    finally:
        writer.wait(60)
    assert got == b"".join(b"%d\n" % number for number in range(2000))


def test_starts_at_the_last_lines_of_the_newest_attempt() -> None:
    store = MemoryStore()
    folder = RunFolder(store, RUN)
    folder.log(b"old\n", attempt=1)
    folder.log(b"1\n2\n3\n", attempt=2)
    messages: list[str] = []
    assert b"".join(Follower(followed(store, lambda _: True, messages), lines=2)) == b"2\n3\n"
    assert messages == []


def test_following_one_attempt_ends_when_the_next_begins() -> None:
    store = MemoryStore()
    folder = RunFolder(store, RUN)
    folder.log(b"one\n", attempt=1)
    folder.log(b"two\n", attempt=2)
    assert b"".join(Follower(followed(store, lambda _: False, [], attempt=1), lines=10)) == b"one\n"


def test_set_up_is_shown_of_an_attempt_that_never_started() -> None:
    store = MemoryStore()
    folder = RunFolder(store, RUN)
    folder.setup_log(b"pip: no such package\n", attempt=1)
    folder.log(b"trained\n", attempt=2)
    got = b"".join(Follower(followed(store, lambda _: True, []), lines=None))
    assert got == b"pip: no such package\ntrained\n"


def with_setup(store: Store, what: Followed, shown: list[bytes]) -> Followed:
    def locate(number: int) -> StoredLog | None:
        logs = (log for log in list_logs(store, RUN, number) if log.kind == "setup")
        return next((StoredLog(store, log.key) for log in logs), None)

    def show(data: bytes, is_last: bool) -> None:
        shown.extend([data] if data else [])

    return what._replace(setup=SetupView(locate, show))


def test_set_up_is_shown_while_it_runs_and_the_log_after_it() -> None:
    store = MemoryStore()
    folder = RunFolder(store, RUN)
    shown: list[bytes] = []
    steps: list[Callable[[], object]] = [
        lambda: folder.setup_log(b"collecting\ninstal", attempt=1),
        lambda: folder.setup_log(b"ling\nlast", attempt=1),
        lambda: (folder.setup_log(b" line\n", attempt=1), folder.log(b"trained\n", attempt=1)),
    ]
    seen: list[bytes] = []

    def is_over(_: int) -> bool:
        seen.append(b"".join(shown))
        if steps:
            steps.pop(0)()
        return len(seen) > 4

    got = b"".join(Follower(with_setup(store, followed(store, is_over, []), shown), lines=None))
    assert got == b"trained\n"
    assert seen[1:4] == [b"collecting\n", b"collecting\ninstalling\n", b"collecting\ninstalling\nlast line\n"]
    assert shown == [b"collecting\n", b"installing\n", b"last line\n"]


def test_a_set_up_that_failed_is_not_shown_twice() -> None:
    store = MemoryStore()
    RunFolder(store, RUN).setup_log(b"pip: no such package\ntorn", attempt=1)
    shown: list[bytes] = []
    got = b"".join(Follower(with_setup(store, followed(store, lambda _: True, []), shown), lines=None))
    assert (shown, got) == ([b"pip: no such package\n"], b"torn")


def test_a_run_that_never_logged_ends_quietly() -> None:
    assert list(Follower(followed(MemoryStore(), lambda _: True, []), lines=10)) == []


def test_a_store_that_fails_for_a_moment_costs_no_byte() -> None:
    inner = MemoryStore()
    RunFolder(inner, RUN).log(b"1\n2\n3\n")
    store = CountingStore(inner)
    store.failures = 2
    messages: list[str] = []
    assert b"".join(Follower(followed(store, lambda _: True, messages), lines=None)) == b"1\n2\n3\n"
    assert len(messages) == 1 and messages[0].endswith("connection reset; trying again")


@pytest.mark.parametrize("failures", range(1, 6))
def test_a_failure_at_any_point_changes_nothing(failures: int) -> None:
    """The look, the listing, the size and the read of the tail fail in turn."""
    inner = MemoryStore()
    RunFolder(inner, RUN).log(b"1\n2\n3\n")
    store = CountingStore(inner)
    store.failures = 1
    store.passes = failures - 1
    assert b"".join(Follower(followed(store, lambda _: True, []), lines=2)) == b"2\n3\n"


def test_a_store_that_stays_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    inner = MemoryStore()
    RunFolder(inner, RUN).log(b"1\n")
    store = CountingStore(inner)
    store.failures = 10_000
    with pytest.raises(StoreError, match="connection reset"):
        list(Follower(followed(store, lambda _: False, []), lines=None))
    assert 600 < now[0] < 605


def test_waits_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet run is looked at a few times a second at most, and in the end once a second."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    store = MemoryStore()
    RunFolder(store, RUN).log(b"1\n")
    looks: list[float] = []

    def is_over(_: int) -> bool:
        looks.append(time.monotonic())
        return len(looks) > 7

    list(Follower(followed(store, is_over, []), lines=None))
    gaps = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert gaps[0] >= 0.05
    assert gaps[-1] > gaps[1]
