"""What a run writes reaches the store: in parts while it grows, whole at the end, whatever is interrupted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from gofer.core import run_layout
from gofer.node.uploader.outputs import matches
from gofer.node.uploader.run_folder import PART_BYTES, RunFolderUploader
from gofer.objects.facts import ObjectsError
from gofer.objects.files import FileObjects
from gofer.ops.logs.joined_parts import JoinedStore
from gofer.storage.file import FileStore

RUN = "r261116-091233-k9qd4x"
LOG = f"{run_layout.node_key(RUN, 1, 0)}/rank-0.log"


class Flaky(FileObjects):
    """A folder that refuses now and then, as a store far away does."""

    def __init__(self, root: str, rng: Random) -> None:
        super().__init__(root)
        self._rng = rng

    def put(self, key: str, data: object, **options: object) -> None:
        self._perhaps_fail()
        super().put(key, data, **options)  # type: ignore[arg-type]

    def put_stream(self, key: str, pieces: Iterable[bytes], **options: object) -> int:
        self._perhaps_fail()
        return super().put_stream(key, pieces)

    def delete(self, keys: Iterable[str]) -> int:
        self._perhaps_fail()
        return super().delete(keys)

    def _perhaps_fail(self) -> None:
        if self._rng.random() < 0.3:
            raise ObjectsError(503, "", "busy")


class Refusing(FileObjects):
    """A folder that does not take one of the files."""

    def __init__(self, root: str, key: str) -> None:
        super().__init__(root)
        self._key = key

    def put_stream(self, key: str, pieces: Iterable[bytes], **options: object) -> int:
        if key == self._key:
            raise ObjectsError(507, "", "full")
        return super().put_stream(key, pieces)


class Place:
    """A spool, and the folder that stands for the store."""

    def __init__(self, root: Path) -> None:
        self.spool, self.there = root / "spool", root / "store"
        self.spool.mkdir()
        self.there.mkdir()
        self.store = JoinedStore(FileStore(self.there))

    def uploader(self, *, sync: tuple[str, ...] = (), part_bytes: int = PART_BYTES) -> RunFolderUploader:
        return RunFolderUploader(
            str(self.spool), FileObjects(str(self.there)), sync=sync, part_bytes=part_bytes
        )

    def write(self, key: str, data: bytes, *, age_s: float = 0.0) -> None:
        path = self.spool / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        if age_s:
            at = path.stat().st_mtime - age_s
            os.utime(path, (at, at))

    def held(self) -> list[str]:
        return [info.key for info in FileObjects(str(self.there)).list()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_growing_log_is_readable_at_every_moment(place: Place) -> None:
    rng, box, written = Random(1), place.uploader(part_bytes=1000), b""
    for _ in range(200):
        piece = rng.randbytes(rng.randrange(1, 300))
        written += piece
        place.write(LOG, piece)
        if rng.random() < 0.1:
            box = place.uploader(part_bytes=1000)  # another process took over
        box.upload_changes(RUN)
        assert place.store.get(LOG) == written
        info = place.store.head(LOG)
        assert info is not None and info.size == len(written)
        start = rng.randrange(len(written))
        assert place.store.get_range(LOG, start, 500) == written[start : start + 500]
        assert place.store.get_range(LOG, -10, 10) == written[-10:]
    assert len(place.held()) < len(written) / 1000 + 40
    assert [info.key for info in place.store.list(run_layout.run_key(RUN))] == [LOG]
    box.finish(RUN)
    assert place.held() == [LOG]
    assert place.store.get(LOG) == written


def test_nothing_is_lost_where_the_store_fails_now_and_then(place: Place) -> None:
    rng, written = Random(2), b""
    box = RunFolderUploader(str(place.spool), Flaky(str(place.there), rng), part_bytes=500)
    for _ in range(300):
        piece = rng.randbytes(rng.randrange(1, 200))
        written += piece
        place.write(LOG, piece)
        try:
            box.upload_changes(RUN)
        except ObjectsError:
            assert written.startswith(place.store.get(LOG) if place.store.head(LOG) else b"")
            continue
        assert place.store.get(LOG) == written
    for _ in range(100):
        try:
            box.finish(RUN)
            break
        except ObjectsError:
            continue
    assert place.store.get(LOG) == written
    assert place.held() == [LOG]


def test_outputs_wait_for_the_end_unless_a_pattern_wants_them(place: Place) -> None:
    outputs, box = run_layout.outputs_key(RUN), place.uploader(sync=("*.ckpt", "deep/*.bin"))
    for name in ("a.ckpt", "deep/b.ckpt", "deep/c.bin", "c.bin", "x.log", "young.ckpt"):
        place.write(f"{outputs}/{name}", name.encode(), age_s=-60.0 if name.startswith("young") else 60.0)
    box.outputs.upload_changes(RUN)
    sent = [key.removeprefix(f"{outputs}/") for key in place.held()]
    assert sent == ["a.ckpt", "deep/b.ckpt", "deep/c.bin"]
    box.finish(RUN)
    assert len(place.held()) == 6


def test_word_of_a_success_comes_after_what_came_of_it(place: Place) -> None:
    exit_key, output = (
        f"{run_layout.node_key(RUN, 2, 0)}/{run_layout.EXIT}",
        f"{run_layout.outputs_key(RUN)}/model",
    )
    failed = f"{run_layout.node_key(RUN, 1, 0)}/{run_layout.EXIT}"
    place.write(failed, b'{"state": "failed"}')
    place.write(exit_key, b'{"state": "succeeded"}')
    place.write(output, b"weights")
    box = place.uploader()
    box.upload_changes(RUN)
    assert place.held() == [failed]
    store = Refusing(str(place.there), output)
    with pytest.raises(ObjectsError):
        RunFolderUploader(str(place.spool), store).finish(RUN)
    assert place.held() == [failed]
    box.finish(RUN)
    assert sorted(place.held()) == sorted([failed, output, exit_key])


def test_ends_come_last_and_whole(place: Place) -> None:
    box, ends = place.uploader(), run_layout.ends_key(RUN)
    place.write(ends, b'{"id":"a"}\n')
    place.write(LOG, b"x")
    box.upload_changes(RUN)
    box.finish(RUN)
    assert place.store.head(ends) is None
    box.send_ends(RUN, is_over=False)
    assert place.store.get(ends) == b'{"id":"a"}\n'
    place.write(ends, b'{"id":"b"}\n')
    place.uploader().send_ends(RUN, is_over=True)
    box.send_ends(RUN, is_over=False)  # one that was late
    assert place.store.get(ends) == b'{"id":"a"}\n{"id":"b"}\n'


def test_halves_of_records_stay_here(place: Place) -> None:
    place.write(f"{run_layout.node_key(RUN, 1, 0)}/exit.json.17.tmp", b"{")
    place.write(f"{run_layout.outputs_key(RUN)}/mine.tmp", b"kept")
    place.uploader().finish(RUN)
    assert place.held() == [f"{run_layout.outputs_key(RUN)}/mine.tmp"]


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [("a/b.ckpt", "*.ckpt", True), ("a/b.ckpt", "b.*", True), ("b.bin", "a/*", False), ("a/b", "a/*", True)],
)
def test_patterns(name: str, pattern: str, fits: bool) -> None:
    assert matches(name, pattern) is fits


def test_a_gap_between_parts_is_not_read_over(place: Place) -> None:
    for start, data in ((0, b"abc"), (3, b"de"), (9, b"late")):
        place.store.put(run_layout.part_key(LOG, start), data)
    assert place.store.get(LOG) == b"abcde"
