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
from snapshot.project import SnapshotProject

from gofer.backends.base import PruneBounds
from gofer.core import processes
from gofer.errors import SnapshotError
from gofer.ops.prune.code import CodePlace
from gofer.snapshot import removal_notice
from gofer.snapshot.capture import take_snapshot
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


def old_code(project: SnapshotProject) -> None:
    """A store with code that nobody has used for two days, and nothing else."""
    shutil.rmtree(project.root / "store")
    shutil.rmtree(project.cache, ignore_errors=True)
    project.store = FileStore(project.root / "store", create=True)
    project.write({"a/train.py": "print(1)", "notes.txt": "one"})
    project.take()
    for path in (project.root / "store").rglob("*"):
        os.utime(path, (time.time() - 2 * 86400,) * 2)


def remove_code(store: FileStore) -> None:
    bounds = PruneBounds(time.time(), time.time() - 86400, lambda runs, proven: {}, store)
    place = CodePlace(store, ())
    place.prune(place.prunable(bounds), bounds)


def interleavings(
    project: SnapshotProject, run: Callable[[Stopped], None], other: Callable[[], None]
) -> Iterator[int]:
    """Run both, the first stopped before its first request, its second, and so on to its last."""
    for number in range(1, _MOST_REQUESTS):
        old_code(project)
        store = Stopped(project.root / "store", number)
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
def test_a_removal_stopped_anywhere_takes_no_code_of_a_submission(
    project: SnapshotProject, notes: str
) -> None:
    taken: list[str] = []

    def submit() -> None:
        project.write({"notes.txt": notes})
        taken.append(project.take().id)

    for _ in interleavings(project, remove_code, submit):
        assert (project.restore(taken[-1]) / "notes.txt").read_text() == notes
    assert not list(project.store.list(removal_notice.NOTICES))


@pytest.mark.parametrize("notes", ["one", "another"])
def test_a_submission_stopped_anywhere_keeps_its_code(project: SnapshotProject, notes: str) -> None:
    taken: list[str] = []

    def submit(store: Stopped) -> None:
        project.write({"notes.txt": notes})
        taken.append(take_snapshot(project.folder, store, cache_dir=project.cache).id)

    for _ in interleavings(project, submit, lambda: remove_code(project.store)):
        assert (project.restore(taken[-1]) / "notes.txt").read_text() == notes


def write_notice(project: SnapshotProject, **changes: object) -> None:
    keys = [info.key for info in project.store.list("packs")]
    notice = {"process": processes.name_of_this(), "host": os.uname().nodename, "keys": keys, **changes}
    project.store.put("removals/1", json.dumps(notice).encode())


def test_the_notice_of_a_removal_elsewhere_that_does_not_end_is_named(
    project: SnapshotProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_code(project)
    monkeypatch.setattr(removal_notice, "_WAIT_S", 0.1)
    write_notice(project, host="login-7")
    with pytest.raises(SnapshotError, match="prune --code` on login-7"):
        project.take()


def test_the_notice_of_a_killed_removal_here_is_ignored_and_goes(project: SnapshotProject) -> None:
    old_code(project)
    write_notice(project, process="1:999999999:gone")
    assert project.take().sent_files == 0
    remove_code(project.store)
    assert not list(project.store.list(removal_notice.NOTICES))


def test_a_removal_of_other_code_is_not_waited_for(project: SnapshotProject) -> None:
    old_code(project)
    write_notice(project, keys=["packs/of-somebody-else"])
    assert project.take().sent_files == 0


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"7", b'{"keys": 1}', b'{"process": 1, "host": 2, "keys": [3]}']
)
def test_what_is_not_a_notice_is_ignored(project: SnapshotProject, content: bytes) -> None:
    old_code(project)
    project.store.put("removals/odd", content)
    assert project.take().sent_files == 0
