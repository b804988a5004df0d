"""`gofer prune --code` and a submission at the same moment, either of them stopped before each request."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from snapshot.desk import Desk

from gofer.backends.base import PruneBounds
from gofer.core import processes
from gofer.errors import SnapshotError
from gofer.ops.prune.code import CodePlace
from gofer.snapshot import removal_notice
from gofer.snapshot.capture import take
from gofer.storage.file import FileStore

_REQUESTS = ("get", "get_range", "put", "head", "list", "delete", "list_folders")
_MOST_REQUESTS = 40
# Long enough for the other side to end, or to begin to wait for this one.
_STOPPED_S = 0.2


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal_notice, "_POLL_S", 0.01)


class Stopped(FileStore):
    """A store whose user stops before one request until the other side has ended or waits."""

    def __init__(self, path: Path, before: int) -> None:
        super().__init__(path)
        self.requests = 0
        self.before = before
        self.reached = threading.Event()
        self.other_ended = threading.Event()

    def __getattribute__(self, name: str) -> Any:
        if name in _REQUESTS:
            self.requests += 1
            if self.requests == self.before:
                self.reached.set()
                self.other_ended.wait(_STOPPED_S)
        return super().__getattribute__(name)


def old_code(desk: Desk) -> None:
    """A store with code that nobody has used for two days, and nothing else."""
    shutil.rmtree(desk.place / "store")
    shutil.rmtree(desk.cache, ignore_errors=True)
    desk.store = FileStore(desk.place / "store", create=True)
    desk.write({"a/train.py": "print(1)", "notes.txt": "one"})
    desk.take()
    for path in (desk.place / "store").rglob("*"):
        os.utime(path, (time.time() - 2 * 86400,) * 2)


def remove_code(store: FileStore) -> None:
    bounds = PruneBounds(time.time(), time.time() - 86400, lambda runs, proven: {}, store)
    place = CodePlace(store, ())
    place.prune(place.prunable(bounds), bounds)


def interleavings(desk: Desk, run: Callable[[Stopped], None], other: Callable[[], None]) -> Iterator[int]:
    """Run both, the first stopped before its first request, its second, and so on to its last."""
    for number in range(1, _MOST_REQUESTS):
        old_code(desk)
        store = Stopped(desk.place / "store", number)
        errors: list[BaseException] = []

        def first(store: Stopped = store, errors: list[BaseException] = errors) -> None:
            try:
                run(store)
            except BaseException as error:
                errors.append(error)
            store.reached.set()

        thread = threading.Thread(target=first)
        thread.start()
        assert store.reached.wait(30)
        try:
            other()
        finally:
            store.other_ended.set()
            thread.join(30)
        assert not errors and not thread.is_alive()
        yield number
        if store.requests < number:
            return
    raise AssertionError("a side makes more requests than this test stops before")


@pytest.mark.parametrize("notes", ["one", "another"])
def test_a_removal_stopped_anywhere_takes_no_code_of_a_submission(desk: Desk, notes: str) -> None:
    taken: list[str] = []

    def submit() -> None:
        desk.write({"notes.txt": notes})
        taken.append(desk.take().id)

    for _ in interleavings(desk, remove_code, submit):
        assert (desk.restore(taken[-1]) / "notes.txt").read_text() == notes
    assert not list(desk.store.list(removal_notice.NOTICES))


@pytest.mark.parametrize("notes", ["one", "another"])
def test_a_submission_stopped_anywhere_keeps_its_code(desk: Desk, notes: str) -> None:
    taken: list[str] = []

    def submit(store: Stopped) -> None:
        desk.write({"notes.txt": notes})
        taken.append(take(desk.project, store, cache_dir=desk.cache).id)

    for _ in interleavings(desk, submit, lambda: remove_code(desk.store)):
        assert (desk.restore(taken[-1]) / "notes.txt").read_text() == notes


def write_notice(desk: Desk, **changes: object) -> None:
    keys = [info.key for info in desk.store.list("packs")]
    notice = {"process": processes.name_of_this(), "host": os.uname().nodename, "keys": keys, **changes}
    desk.store.put("removals/1", json.dumps(notice).encode())


def test_the_notice_of_a_removal_elsewhere_that_does_not_end_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_code(desk)
    monkeypatch.setattr(removal_notice, "_WAIT_S", 0.1)
    write_notice(desk, host="login-7")
    with pytest.raises(SnapshotError, match="prune --code` on login-7"):
        desk.take()


def test_the_notice_of_a_killed_removal_here_is_ignored_and_goes(desk: Desk) -> None:
    old_code(desk)
    write_notice(desk, process="1:999999999:gone")
    assert desk.take().sent_files == 0
    remove_code(desk.store)
    assert not list(desk.store.list(removal_notice.NOTICES))


def test_a_removal_of_other_code_is_not_waited_for(desk: Desk) -> None:
    old_code(desk)
    write_notice(desk, keys=["packs/of-somebody-else"])
    assert desk.take().sent_files == 0


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"7", b'{"keys": 1}', b'{"process": 1, "host": 2, "keys": [3]}']
)
def test_what_is_not_a_notice_is_ignored(desk: Desk, content: bytes) -> None:
    old_code(desk)
    desk.store.put("removals/odd", content)
    assert desk.take().sent_files == 0
