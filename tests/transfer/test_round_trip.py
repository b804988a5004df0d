"""Up, down, and again, over every kind of store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from transfer.conftest import KINDS
from transfer.transfers import counts, down, move, up
from transfer.trees import LONG_AGO_S, many, noise, read, write

from gofer.errors import KeyNotFound, UsageError
from gofer.storage.base import Hashes, Store
from gofer.testing.storage_conformance import ODD_NAMES
from gofer.transfer import LocalEnd, StoreEnd, TransferOptions, TransferProgress, plan, run

LARGE = noise((9 << 20) + 12345, seed=9)


def test_what_goes_up_comes_down(store: Store, folder: Path, tmp_path: Path) -> None:
    files = {**many(60), "empty": b"", "large/one": LARGE, "large/two": noise(8 << 20, seed=2)}
    write(folder, files)
    result = up(folder, store)
    assert counts(result) == (len(files), 0, 0, 0)
    assert result.bytes == sum(map(len, files.values()))
    assert {info.key: info.size for info in store.list("data")} == {
        f"data/{name}": len(content) for name, content in files.items()
    }
    result = down(store, tmp_path / "back")
    assert counts(result) == (len(files), 0, 0, 0)
    assert read(tmp_path / "back") == files


def test_what_is_there_is_skipped(store: Store, folder: Path, tmp_path: Path) -> None:
    files = {**many(20), "large": LARGE}
    write(folder, files)
    up(folder, store)
    assert counts(up(folder, store)) == (0, 21, 0, 0)
    down(store, tmp_path / "back")
    assert counts(down(store, tmp_path / "back")) == (0, 21, 0, 0)
    assert counts(up(tmp_path / "back", store)) == (0, 21, 0, 0)


def test_what_changed_is_sent(store: Store, folder: Path, tmp_path: Path) -> None:
    write(folder, {"same": b"1", "longer": b"1", "other": b"1", "gone": b"1"})
    up(folder, store)
    down(store, tmp_path / "back")
    write(folder, {"longer": b"12", "other": b"2", "new": b"1"}, age_s=0)
    later = time.time() + 5  # past any doubt about the second
    os.utime(folder / "other", (later, later))
    os.unlink(folder / "gone")
    assert counts(up(folder, store)) == (3, 1, 0, 0)
    assert store.get("data/other") == b"2"
    time.sleep(1.1)  # the stores count in seconds
    write(folder, {"other": b"3"}, age_s=0)
    later = max(later, time.time()) + 5
    os.utime(folder / "other", (later, later))
    up(folder, store)
    assert counts(down(store, tmp_path / "back")) == (3, 2, 0, 0)
    assert read(tmp_path / "back") == {
        "same": b"1",
        "longer": b"12",
        "other": b"3",
        "new": b"1",
        "gone": b"1",
    }


def test_a_file_written_in_the_second_of_its_upload_is_noticed(store: Store, folder: Path) -> None:
    for content in (b"1", b"2", b"3", b"4"):
        write(folder, {"f": content}, age_s=0)
        up(folder, store)
        assert store.get("data/f") == content


def test_odd_names(store: Store, folder: Path, tmp_path: Path) -> None:
    files = {f"{name}/{name}": name.encode("utf-8", "surrogateescape") for name in ODD_NAMES}
    write(folder, files)
    assert counts(up(folder, store)) == (len(files), 0, 0, 0)
    assert counts(down(store, tmp_path / "back")) == (len(files), 0, 0, 0)
    assert read(tmp_path / "back") == files
    assert counts(up(folder, store)) == (0, len(files), 0, 0)
    assert counts(down(store, tmp_path / "back")) == (0, len(files), 0, 0)


def test_single_files(store: Store, folder: Path, tmp_path: Path) -> None:
    write(folder, {"small": b"abc", "large": LARGE})
    for name in ("small", "large"):
        ends = LocalEnd(folder / name), StoreEnd(store, f"a/{name}")
        assert counts(move(*ends)) == (1, 0, 0, 0)
        assert counts(move(*ends)) == (0, 1, 0, 0)
        back = LocalEnd(tmp_path / "new/folder" / name)
        assert counts(move(ends[1], back)) == (1, 0, 0, 0)
        assert counts(move(ends[1], back)) == (0, 1, 0, 0)
    assert read(tmp_path / "new/folder") == read(folder)


def test_checksum_tells_what_times_do_not(store: Store, folder: Path, tmp_path: Path) -> None:
    write(folder, {"same": b"1", "other": b"1"})
    up(folder, store)
    write(folder, {"other": b"2"})  # of the same age and size
    assert counts(up(folder, store)) == (0, 2, 0, 0)
    able = isinstance(store, Hashes) or hasattr(store, "path")  # else all is sent
    assert counts(up(folder, store, options=TransferOptions(checksum=True))) == (
        (1, 1, 0, 0) if able else (2, 0, 0, 0)
    )
    assert store.get("data/other") == b"2"
    down(store, tmp_path / "back")
    later = time.time() + 100
    write(tmp_path / "back", {"other": b"3"}, age_s=0)
    os.utime(tmp_path / "back/other", (later, later))
    result = down(store, tmp_path / "back", options=TransferOptions(checksum=True))
    assert counts(result) == ((1, 1, 0, 0) if able else (2, 0, 0, 0))
    assert read(tmp_path / "back") == {"same": b"1", "other": b"2"}


@pytest.mark.parametrize("kind", ["azure"])
def test_times_and_programs_survive(
    kind: str, open_kind: Callable[[str], Store], folder: Path, tmp_path: Path
) -> None:
    store = open_kind(kind)
    write(folder, {"plain": b"1", "program": b"2", "large": LARGE})
    (folder / "program").chmod(0o755)
    (folder / "large").chmod(0o700)
    os.utime(folder / "plain", ns=(1, 1_234_567_890_123_456_789))
    up(folder, store)
    down(store, tmp_path / "back")
    for name, executable in {"plain": False, "program": True, "large": True}.items():
        found = (tmp_path / "back" / name).stat()
        assert found.st_mtime_ns == (folder / name).stat().st_mtime_ns
        assert bool(found.st_mode & 0o100) is executable
    assert (tmp_path / "back/plain").stat().st_mtime_ns == 1_234_567_890_123_456_789


@pytest.mark.parametrize("kind", ["azure"])
def test_where_the_store_keeps_an_md5_a_touch_sends_nothing(
    kind: str, open_kind: Callable[[str], Store], folder: Path, tmp_path: Path
) -> None:
    store = open_kind(kind)
    write(folder, {"small": b"1", "large": LARGE})
    up(folder, store)
    down(store, tmp_path / "back")
    for name in ("small", "large"):
        os.utime(folder / name, (LONG_AGO_S + 7, LONG_AGO_S + 7))
    assert counts(up(folder, store)) == (0, 2, 0, 0)
    for name in ("small", "large"):
        os.utime(tmp_path / "back" / name, (5, 5))
    assert counts(down(store, tmp_path / "back")) == (0, 2, 0, 0)


@pytest.mark.parametrize("kind", ["azure", "s3"])
def test_checksum_knows_large_objects(
    kind: str, open_kind: Callable[[str], Store], folder: Path, tmp_path: Path
) -> None:
    store = open_kind(kind)
    write(folder, {"large": LARGE})
    up(folder, store)
    assert counts(up(folder, store, options=TransferOptions(checksum=True))) == (0, 1, 0, 0)
    down(store, tmp_path / "back")
    assert counts(down(store, tmp_path / "back", options=TransferOptions(checksum=True))) == (0, 1, 0, 0)
    write(folder, {"large": LARGE[:-1] + b"x"})
    assert counts(up(folder, store, options=TransferOptions(checksum=True))) == (1, 0, 0, 0)


@pytest.mark.parametrize("target", KINDS)
def test_from_store_to_store(
    store: Store, target: str, open_kind: Callable[[str], Store], folder: Path
) -> None:
    other = open_kind(target)
    files = {**many(12), "empty": b"", "large": LARGE}
    up(write(folder, files), store)
    time.sleep(1.1)  # a store that counts in seconds cannot tell within one
    ends = StoreEnd(store, "data"), StoreEnd(other, "copy/of data")
    assert counts(move(*ends)) == (len(files), 0, 0, 0)
    assert {info.key: other.get(info.key) for info in other.list()} == {
        f"copy/of data/{name}": content for name, content in files.items()
    }
    assert counts(move(*ends)) == (0, len(files), 0, 0)


def test_within_a_store(store: Store, folder: Path) -> None:
    files = {**many(8), "large": LARGE}
    up(write(folder, files), store)
    assert counts(move(StoreEnd(store, "data"), StoreEnd(store, "data2"))) == (len(files), 0, 0, 0)
    assert {info.key: store.get(info.key) for info in store.list("data2")} == {
        f"data2/{name}": content for name, content in files.items()
    }


def test_deletion_needs_the_option_and_stays_below_the_prefix(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    write(folder, {"keep": b"1", "a/b/go": b"1", "go": b"1"})
    up(folder, store)
    for key in ("data2/x", "dat", "other/data/x", "data-x"):
        store.put(key, b"1")
    down(store, tmp_path / "back")
    os.unlink(folder / "a/b/go")
    os.unlink(folder / "go")
    assert counts(up(folder, store)) == (0, 1, 0, 0)
    planned = plan(LocalEnd(folder), StoreEnd(store, "data"), TransferOptions(delete=True))
    assert (planned.deletes, planned.delete_bytes) == (2, 2)
    assert [info.key for info in store.list("data")] == ["data/a/b/go", "data/go", "data/keep"]
    assert counts(run(planned)) == (0, 1, 2, 0)
    assert sorted(info.key for info in store.list()) == [
        "dat",
        "data-x",
        "data/keep",
        "data2/x",
        "other/data/x",
    ]
    assert counts(down(store, tmp_path / "back")) == (0, 1, 0, 0)
    assert counts(down(store, tmp_path / "back", options=TransferOptions(delete=True))) == (0, 1, 2, 0)
    assert os.listdir(tmp_path / "back") == ["keep"]


def test_patterns_hold_on_both_sides(store: Store, folder: Path, tmp_path: Path) -> None:
    write(folder, {"a.jpg": b"1", "a.txt": b"1", "b/c.jpg": b"1", "skip/d.jpg": b"1"})
    options = TransferOptions(include=("*.jpg",), exclude=("skip/",), delete=True)
    store.put("data/other.txt", b"not chosen, not deleted")
    store.put("data/old.jpg", b"chosen, deleted")
    assert counts(up(folder, store, options=options)) == (2, 0, 1, 0)
    assert [info.key for info in store.list()] == ["data/a.jpg", "data/b/c.jpg", "data/other.txt"]
    down(store, tmp_path / "back", options=TransferOptions(include=("/b/",)))
    assert read(tmp_path / "back") == {"b/c.jpg": b"1"}


def test_nothing_is_there(store: Store, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyNotFound, match="nothing at"):
        down(store, folder)
    with pytest.raises(UsageError, match="is not there"):
        up(folder, store)
    folder.mkdir()
    assert counts(up(folder, store)) == (0, 0, 0, 0)
    store.put("data/x", b"1")
    assert counts(down(store, folder, options=TransferOptions(include=("nothing",)))) == (0, 0, 0, 0)


def test_an_empty_source_with_delete_empties_the_destination_and_a_missing_one_does_not(
    store: Store, folder: Path
) -> None:
    store.put("data/x", b"1")
    with pytest.raises(UsageError):
        up(folder, store, options=TransferOptions(delete=True))
    assert store.get("data/x") == b"1"
    folder.mkdir()
    assert counts(up(folder, store, options=TransferOptions(delete=True))) == (0, 0, 1, 0)


def test_the_numbers_add_up(store: Store, folder: Path) -> None:
    files = {**many(15), "large": LARGE}
    write(folder, files)
    progress = TransferProgress()
    planned = plan(LocalEnd(folder), StoreEnd(store, "data"), progress=progress)
    assert progress.read().compared == 16
    assert (planned.files, planned.bytes) == (16, sum(map(len, files.values())))
    run(planned, progress=progress)
    end = progress.read()
    assert (end.phase, end.files, end.all_files) == ("done", 16, 16)
    assert (end.bytes, end.all_bytes) == (planned.bytes, planned.bytes)
