"""The parts of the executor: jobs, threads, memory, numbers, notes."""

from __future__ import annotations

import itertools
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


def test_stopping_wakes_waiting_threads() -> None:
    jobs = MoveQueue(iter([entry("a"), entry("b")]))
    take_attempt(jobs)
    take_attempt(jobs)
    thread, results = in_thread(jobs.next_job)
    jobs.stop()
    thread.join(60)
    assert results == [None]
    assert jobs.next_job() is None


class CountedJobs:
    """Short jobs for a pool. `threads` has every thread that did one; `is_enough` ends the work.

    At most 20,000 jobs, so that a pool that never comes to a decision ends too.
    """

    def __init__(self, is_enough: Callable[[CountedJobs], bool]) -> None:
        self.threads: set[threading.Thread] = set()
        self.done = self.at_once = self.peak = 0
        self._is_enough = is_enough
        self._lock = threading.Lock()

    def work(self) -> bool:
        with self._lock:
            self.threads.add(threading.current_thread())
            if self.done >= 20_000 or self._is_enough(self):
                return False
            self.at_once += 1
            self.peak = max(self.peak, self.at_once)
        time.sleep(0.05)
        with self._lock:
            self.at_once -= 1
            self.done += 1
        return True

    def living(self) -> int:
        """The number of threads that have not ended."""
        return sum(thread.is_alive() for thread in self.threads)


def test_a_pool_doubles_up_to_64_threads_while_each_step_moves_more() -> None:
    amounts = (1000.0**step for step in itertools.count())
    at_64: list[int] = []

    def is_enough(jobs: CountedJobs) -> bool:
        """Whether 64 threads did many more jobs, in which a pool without a limit would grow further."""
        if len(jobs.threads) >= 64 and not at_64:
            at_64.append(jobs.done)
        return bool(at_64) and jobs.done >= at_64[0] + 64 * 20

    jobs = CountedJobs(is_enough)
    ThreadPool(jobs.work, lambda: next(amounts)).run()
    assert len(jobs.threads) == 64


def test_a_pool_returns_to_8_threads_when_16_move_no_more() -> None:
    """The first measurement, of 8 threads, shows that something moved; the second, of 16 threads, nothing."""
    amounts = itertools.chain([0.0], itertools.repeat(1000.0))
    jobs = CountedJobs(lambda jobs: len(jobs.threads) >= 16 and jobs.living() <= 8)
    ThreadPool(jobs.work, lambda: next(amounts)).run()
    assert len(jobs.threads) == 16
    assert jobs.done < 20_000  # eight threads ended while there was work


def test_a_pool_of_a_given_size() -> None:
    jobs = CountedJobs(lambda jobs: jobs.done >= 60)
    ThreadPool(jobs.work, lambda: jobs.done, jobs=3).run()
    assert (len(jobs.threads), jobs.peak <= 3) == (3, True)


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
