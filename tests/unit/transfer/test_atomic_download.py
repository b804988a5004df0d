"""Where downloads come down."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from transfer.transfers import counts, down
from transfer.trees import noise, read, write

from gofer.errors import StoreError
from gofer.storage.base import ObjectInfo
from gofer.storage.memory import MemoryStore
from gofer.transfer.atomic_download import DownloadFolder
from gofer.transfer.download import PartFile


def stored(**objects: bytes) -> MemoryStore:
    return stored_as(objects)


def stored_as(objects: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for key, data in objects.items():
        store.put(f"data/{key}", data)
    return store


def test_nothing_is_written_through_a_link_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"file": b"precious"})
    folder.mkdir()
    (folder / "out").symlink_to(outside)
    (folder / "file").symlink_to(outside / "file")
    (folder / "deep").mkdir()
    (folder / "deep/up").symlink_to("../..")
    large = noise(9 << 20)
    objects = {"out/file": b"1", "out/new/file": b"1", "out/large": large, "deep/up/x": b"1", "file": b"own"}
    result = down(stored_as(objects), folder)
    assert counts(result) == (1, 0, 0, 4)
    assert {path for path, _ in result.failed} == {"out/file", "out/new/file", "out/large", "deep/up/x"}
    assert all("is a link that leads out of the folder" in why for _, why in result.failed)
    assert read(outside) == {"file": b"precious"}
    assert set(os.listdir(tmp_path)) == {"outside", "folder"}
    assert not (folder / "file").is_symlink()
    assert (folder / "file").read_bytes() == b"own"


def test_links_within_the_folder_and_to_the_folder_itself_are_ways(folder: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    (real / "sub").mkdir(parents=True)
    folder.symlink_to(real)
    (real / "inner").symlink_to("sub")
    assert counts(down(stored_as({"inner/file": b"1", "top": b"2"}), folder)) == (2, 0, 0, 0)
    assert (real / "sub/file").read_bytes() == b"1"
    assert (real / "top").read_bytes() == b"2"


class Hostile(MemoryStore):
    """A store that lists keys which lead elsewhere, as a bucket that others write to may."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        names = ["../escape", "a/../../escape", "/etc/escape", "a//b", ".", "..", "ok", "z/."]
        return iter([ObjectInfo(f"data/{name}", 1, 5.0) for name in sorted(names)])

    def get(self, key: str) -> bytes:
        return b"!"


def test_keys_that_lead_elsewhere_are_refused(folder: Path, tmp_path: Path) -> None:
    result = down(Hostile(), folder)
    assert counts(result) == (1, 0, 0, 7)
    assert all("is not a key" in why for _, why in result.failed)
    assert os.listdir(tmp_path) == ["folder"]
    assert read(folder) == {"ok": b"!"}


def test_names_of_unfinished_downloads_are_refused(folder: Path) -> None:
    result = down(stored_as({".gofer-part-1": b"1", "a/.gofer-part-x": noise(9 << 20), "b": b"1"}), folder)
    assert counts(result) == (1, 0, 0, 2)
    assert read(folder) == {"b": b"1"}


def test_folders_and_files_in_the_way(folder: Path) -> None:
    write(folder, {"folder/inside": b"1", "file": b"2"})
    result = down(stored_as({"folder": b"x", "file/below": b"y", "fine": b"z"}), folder)
    assert counts(result) == (1, 0, 0, 2)
    assert {path: why.rpartition("` ")[2] for path, why in result.failed} == {
        "folder": "is a folder, but a file is to be written there",
        "file/below": "is a file, but a folder is needed there",
    }
    assert read(folder) == {"folder/inside": b"1", "file": b"2", "fine": b"z"}


def test_empty_objects_that_mark_folders_become_folders(folder: Path) -> None:
    objects = {"a": b"", "a/b": b"", "a/b/file": b"1", "a-": b"", "empty": b""}
    assert counts(down(stored_as(objects), folder)) == (5, 0, 0, 0)
    assert read(folder) == {"a/b/file": b"1", "a-": b"", "empty": b""}
    assert down(stored_as(objects), folder).ok


def test_modes_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        download_folder = DownloadFolder(str(tmp_path))
        download_folder.write("plain", b"1", 5, executable=False)
        download_folder.write("program", b"1", 5, executable=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "program").stat().st_mode) == 0o750


def test_a_write_that_fails_leaves_what_was_there(folder: Path) -> None:
    write(folder, {"file": b"old", "folder/file": b"old"})
    for path in ("../file", "folder", "file/below"):
        with pytest.raises(StoreError):
            DownloadFolder(str(folder)).write(path, b"new", 1, executable=False)
    assert read(folder.parent) == {"folder/file": b"old", "folder/folder/file": b"old"}


def test_two_at_one_object_do_not_share_an_unfinished_file(tmp_path: Path) -> None:
    download_folder = DownloadFolder(str(tmp_path))
    one, first = download_folder.open_part("file", "same")
    two, second = download_folder.open_part("file", "same")
    assert first != second
    os.close(one)
    three, third = download_folder.open_part("file", "same")
    assert third == first
    os.close(two)
    os.close(three)


def part_file(path: Path, size: int = 25, block: int = 10) -> PartFile:
    return PartFile(os.open(path, os.O_RDWR | os.O_CREAT), size, block)


def test_an_unfinished_file_knows_its_blocks(tmp_path: Path) -> None:
    import hashlib

    path, data = tmp_path / "part", noise(25)
    part = part_file(path)
    assert part.missing() == [0, 1, 2]
    part.write(1, memoryview(data[10:20]), hashing=True)
    os.close(part.file)
    part = part_file(path)
    assert part.missing() == [0, 2]
    part.write(2, memoryview(data[20:]), hashing=True)
    part.write(0, memoryview(data[:10]), hashing=True)
    assert part.md5() == hashlib.md5(data).digest()
    part.trim()
    os.close(part.file)
    assert path.read_bytes() == data
    part = part_file(path)  # killed before it got its name
    assert part.missing() == []
    assert part.md5() == hashlib.md5(data).digest()
    os.close(part.file)


@pytest.mark.parametrize("content", [b"", b"x", bytes(26), bytes(29)])
def test_a_file_of_another_form_is_started_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "part"
    path.write_bytes(content)
    part = part_file(path)
    assert part.missing() == [0, 1, 2]
    assert path.stat().st_size == 28
    os.close(part.file)


def test_a_file_larger_than_the_disk_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        part_file(tmp_path / "part", size=1 << 60, block=1 << 50)
