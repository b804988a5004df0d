"""The parts of the executor: jobs, threads, memory, numbers, notes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gofer.storage.base import BlockRules
from gofer.transfer.budget import Budget
from gofer.transfer.entries import FileEntry
from gofer.transfer.executor import FileMove, FilePart, LargeFileProgress, MoveQueue
from gofer.transfer.journal import claim, remove_stale_notes
from gofer.transfer.mover import LARGE
from gofer.transfer.object_upload import block_size
from gofer.transfer.progress import TransferProgress
from gofer.transfer.result import Notes
from gofer.transfer.thread_pool import ThreadPool

MIB = 1 << 20


def entry(name: str) -> FileEntry:
    return FileEntry(name, 1, 1)


class InThree:
    """A file in three parts."""

    parts = 3

    def move_part(self, part: int) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


def take_attempt(jobs: MoveQueue) -> FileMove:
    job = jobs.next_job()
    assert isinstance(job, FileMove)
    return job


def take_part(jobs: MoveQueue) -> FilePart:
    job = jobs.next_job()
    assert isinstance(job, FilePart)
    return job


def test_parts_of_what_is_under_way_come_first() -> None:
    jobs = MoveQueue(iter([entry("a"), entry("b")]))
    first = take_attempt(jobs)
    underway = LargeFileProgress(first, InThree())
    jobs.opened(underway)
    parts = [take_part(jobs) for _ in range(3)]
    assert [part.number for part in parts] == [0, 1, 2]
    second = take_attempt(jobs)
    assert second.entry.path == "b"
    assert [jobs.done(part, None) for part in parts] == [False, False, True]
    jobs.ended(first)
    jobs.ended(second)
    assert jobs.next_job() is None


def test_after_an_error_no_more_parts_are_given() -> None:
    jobs = MoveQueue(iter([entry("a")]))
    attempt = take_attempt(jobs)
    jobs.opened(LargeFileProgress(attempt, InThree()))
    one, two = take_part(jobs), take_part(jobs)
    assert jobs.done(one, OSError("broken")) is False
    assert jobs.done(two, None) is True
    jobs.ended(attempt)
    assert jobs.next_job() is None


def test_what_failed_comes_again_once_at_the_end() -> None:
    jobs = MoveQueue(iter([entry("a"), entry("b")]))
    first = take_attempt(jobs)
    assert jobs.ended(first, again=True)
    second = take_attempt(jobs)
    assert (second.entry.path, second.last) == ("b", False)
    third = take_attempt(jobs)
    assert (third.entry.path, third.last) == ("a", True)
    assert not jobs.ended(third, again=True)
    jobs.ended(second)
    assert jobs.next_job() is None


def in_thread(act: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(act()), daemon=True)
    thread.start()
    return thread, results


def test_a_thread_waits_while_work_may_still_come_up() -> None:
    jobs = MoveQueue(iter([entry("a")]))
    attempt = take_attempt(jobs)
    thread, results = in_thread(jobs.next_job)
    thread.join(0.1)
    assert thread.is_alive()
    jobs.ended(attempt, again=True)
    thread.join(60)
    assert results == [FileMove(entry("a"), True)]


def test_stopping_wakes_those_who_wait() -> None:
    jobs = MoveQueue(iter([entry("a"), entry("b")]))
    take_attempt(jobs)
    take_attempt(jobs)
    thread, results = in_thread(jobs.next_job)
    jobs.stop()
    thread.join(60)
    assert results == [None]
    assert jobs.next_job() is None


class Errands:
    """Work that takes a moment and stops nobody else; the most at a time is `peak`."""

    def __init__(self, count: int, seconds: float, lanes: int = 1000) -> None:
        self.left = count
        self.done = self.at_once = self.peak = 0
        self._seconds = seconds
        self._lanes = threading.Semaphore(lanes)
        self._lock = threading.Lock()

    def work(self) -> bool:
        with self._lock:
            if not self.left:
                return False
            self.left -= 1
            self.at_once += 1
            self.peak = max(self.peak, self.at_once)
        with self._lanes:
            time.sleep(self._seconds)
        with self._lock:
            self.at_once -= 1
            self.done += 1
        return True


def test_a_crew_grows_while_that_helps() -> None:
    errands = Errands(300, 0.4)  # so long that what else this machine does is nothing beside it
    ThreadPool(errands.work, lambda: errands.done).run()
    assert errands.done == 300
    assert errands.peak >= 32


def test_a_crew_stays_small_where_more_do_not_help() -> None:
    errands = Errands(400, 0.01, lanes=4)
    ThreadPool(errands.work, lambda: errands.done).run()
    assert errands.done == 400
    assert errands.peak < 64  # on a busy machine one of the tries may seem to help


def test_a_crew_of_a_given_size() -> None:
    errands = Errands(60, 0.02)
    ThreadPool(errands.work, lambda: errands.done, jobs=3).run()
    assert (errands.done, errands.peak) == (60, 3)


def test_the_budget_bounds_what_is_held() -> None:
    budget = Budget(3 * LARGE)
    held = [budget.buffer(5), budget.buffer(LARGE), budget.buffer(LARGE)]
    assert {len(buffer) for buffer in held} == {LARGE}
    thread, results = in_thread(lambda: budget.buffer(1))
    thread.join(0.1)
    assert thread.is_alive()
    budget.release(held[0])
    thread.join(60)
    assert results[0] is held[0]


def test_what_is_more_than_the_budget_has_it_alone() -> None:
    budget = Budget(LARGE)
    with budget.share(1):
        thread, results = in_thread(lambda: budget.buffer(5 * LARGE))
        thread.join(0.1)
        assert thread.is_alive()
    thread.join(60)
    (buffer,) = results
    assert isinstance(buffer, bytearray)
    assert len(buffer) == 5 * LARGE


def test_blocks_are_as_small_as_the_service_allows() -> None:
    azure, s3 = BlockRules(1, 4000 * MIB, 50_000), BlockRules(5 * MIB, 5 << 30, 10_000)
    assert block_size(LARGE, azure) == block_size(300 << 30, azure) == block_size(LARGE, s3) == 8 * MIB
    for size in (100 << 30, 600 << 30, 5 << 40):
        block = block_size(size, s3)
        assert block % MIB == 0
        assert size / block <= 10_000
    assert block_size(600 << 30, s3) == 62 * MIB


def test_progress_tells_rate_and_rest() -> None:
    progress = TransferProgress()
    progress.add_compared(3)
    progress.begin("moving", files=10, size=1000)
    first = progress.read()
    assert (first.phase, first.compared, first.all_files, first.all_bytes) == ("moving", 3, 10, 1000)
    assert first.left_s is None
    time.sleep(0.05)
    progress.add(size=500, files=5, failed=1)
    now = progress.read()
    assert (now.bytes, now.files, now.failed) == (500, 5, 1)
    assert 0 < now.bytes_per_s <= 500 / 0.05
    assert now.left_s is not None
    assert now.left_s == pytest.approx(500 / now.bytes_per_s)
    progress.begin("done")
    assert progress.read().left_s is None


def test_notes_count_all_and_name_the_first() -> None:
    notes = Notes()
    for number in range(1500):
        notes.add(str(number), "why")
    assert len(notes) == 1500
    assert len(list(notes)) == 1000
    assert next(iter(notes)) == ("0", "why")


def test_an_upload_is_remembered_for_its_very_content(tmp_path: Path) -> None:
    folder = tmp_path / "deep/state"
    note = claim(folder, "az://c/key")
    assert note
    assert note.read("content") is None
    note.write("content", "upload-1")
    note.write("content", "u2")
    assert claim(folder, "az://c/key") is None  # held
    note.close()
    again = claim(folder, "az://c/key")
    assert again
    assert again.read("content") == "u2"
    assert again.read("other content") is None
    again.forget()
    again.close()
    assert list(folder.iterdir()) == []
    assert claim(None, "az://c/key") is None


def test_a_torn_note_is_no_note(tmp_path: Path) -> None:
    note = claim(tmp_path, "key")
    assert note
    (path,) = tmp_path.iterdir()
    for text in ("", "{", '{"identity": "x"}', '{"identity": "x", "upload": 5}', "[]"):
        path.write_text(text)
        assert note.read("x") is None
    note.close()


def test_old_notes_are_swept_away(tmp_path: Path) -> None:
    for place in ("old", "new"):
        note = claim(tmp_path, place)
        assert note
        note.write("x", place)
        note.close()
    (tmp_path / "unrelated").touch()
    old = sorted(tmp_path.glob("*.json"))[0]
    os.utime(old, (5, 5))
    os.utime(tmp_path / "unrelated", (5, 5))
    remove_stale_notes(tmp_path)
    assert not old.exists()
    assert len(list(tmp_path.iterdir())) == 2
    remove_stale_notes(tmp_path / "absent")
    remove_stale_notes(None)


@pytest.mark.parametrize(
    "text", ["[" * 60_000, "{", "[]", '{"identity": "a"}', '{"identity": "a", "upload": 5}']
)
def test_a_note_that_is_none_is_forgotten(tmp_path: Path, text: str) -> None:
    note = claim(tmp_path, "place")
    assert note is not None
    next(tmp_path.glob("*.json")).write_text(text)
    assert note.read("a") is None
    note.close()
