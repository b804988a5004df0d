"""Local files that change, vanish or cannot be read while they are sent."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from services.azurite import Azurite
from services.moto import Moto
from services.proxy import Fault, Request, proxied
from transfer.conftest import azure_store, s3_store
from transfer.transfers import counts, up
from transfer.trees import noise, read, write

from gofer.errors import StoreError
from gofer.storage.base import ObjectInfo
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore
from gofer.transfer import LocalEnd, StoreEnd, plan, run
from gofer.transfer.budget import Budget
from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import SourceChanged
from gofer.transfer.upload import TICK_S, FileParts, read_small
from gofer.transfer.walk import FileSelection


class Rewriting:
    """A thread that writes one thing over another, each by one call. Leaving the block ends it."""

    def __init__(self, path: Path, wholes: set[bytes], pause_s: float) -> None:
        self.path = path
        self._wholes = wholes
        self._pause_s = pause_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write_on)
        self._writes: list[tuple[float, float]] = []

    def __enter__(self) -> Rewriting:
        self.path.write_bytes(min(self._wholes))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def took_long_between(self, since: float, until: float) -> bool:
        """Whether a call that was under way then took longer than a file's times can tell."""
        return any(begun < until and since < ended for begun, ended in self._writes if ended - begun > TICK_S)

    def _write_on(self) -> None:
        with open(self.path, "rb+", buffering=0) as file:
            while not self._done.is_set():
                for data in self._wholes:
                    file.seek(0)
                    begun = time.monotonic()
                    file.write(data)
                    self._writes.append((begun, time.monotonic()))
                    self._done.wait(self._pause_s)


@pytest.mark.parametrize("pause_s", [0.001, 0.03])
def test_a_file_that_is_written_to_is_never_read_torn(tmp_path: Path, pause_s: float) -> None:
    """But in the midst of one long write, of which a file's times tell the beginning alone."""
    path = tmp_path / "file"
    wholes = {letter * 7_000_000 for letter in (b"a", b"b")}
    noticed, torn = 0, []
    with Rewriting(path, wholes, pause_s) as writer:
        for _ in range(20):
            since = time.monotonic()
            try:
                data, _entry = read_small(str(path), FileEntry("file", 1, 1))
            except SourceChanged:
                noticed += 1
            else:
                if data not in wholes:
                    torn.append((since, time.monotonic()))
    assert all(writer.took_long_between(*one) for one in torn)
    assert noticed or pause_s > 0.001
    assert read_small(str(path), FileEntry("file", 1, 1))[0] in wholes


def test_parts_are_hashed_in_order_for_any_reader(tmp_path: Path) -> None:
    import hashlib

    data = noise(1_000_003)
    path = write(tmp_path, {"file": data}) / "file"
    parts = FileParts(str(path), FileEntry("file", 1, 1))
    budget = Budget(100_000)
    sizes = [min(50_000, len(data) - start) for start in range(0, len(data), 50_000)]

    def take(number: int) -> None:
        buffer = parts.read(number, number * 50_000, sizes[number], budget)
        assert buffer[: sizes[number]] == data[number * 50_000 :][: sizes[number]]
        budget.release(buffer)

    threads = [threading.Thread(target=take, args=[number]) for number in reversed(range(len(sizes)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parts.md5() == hashlib.md5(data).digest()
    parts.close()


def test_a_part_that_fails_holds_nobody_up(tmp_path: Path) -> None:
    path = write(tmp_path, {"file": noise(200_000)}) / "file"
    parts = FileParts(str(path), FileEntry("file", 1, 1))
    os.truncate(path, 120_000)
    budget = Budget(100_000)
    ended: dict[int, str] = {}

    def take(number: int) -> None:
        try:
            budget.release(parts.read(number, number * 50_000, 50_000, budget))
            ended[number] = "read"
        except SourceChanged as error:
            ended[number] = error.message

    threads = [threading.Thread(target=take, args=[number], daemon=True) for number in (3, 1, 2, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    shorter = "it became shorter while it was being read"
    assert dict(sorted(ended.items())) == {0: "read", 1: "read", 2: shorter, 3: shorter}
    parts.close()


class Terse(MemoryStore):
    """A look at one of its objects tells less than its listing does, as with a server of plain files."""

    def head(self, key: str) -> ObjectInfo | None:
        info = super().head(key)
        return info._replace(md5=None) if info else None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return (info for key in self._under(prefix) if (info := super(Terse, self).head(key)))


def test_a_look_does_not_lose_the_md5_of_the_listing() -> None:
    store = Terse()
    store.put("k", b"first")
    end = StoreEnd(store)
    (entry,) = end.entries(FileSelection())
    assert entry.md5 is not None
    assert end.current_entry(entry).md5 == entry.md5
    store.put("k", b"other")
    assert end.current_entry(entry).md5 is None


@pytest.mark.parametrize("how", ["longer", "shorter", "rewritten"])
def test_a_large_file_that_changes_is_reported_and_not_put_in_place(
    azurite: Azurite, folder: Path, how: str
) -> None:
    write(folder, {"large": noise(25 << 20), "small": b"1"})
    large = folder / "large"

    def touch(request: Request) -> Fault | None:
        if "comp=block&" in request.path:
            with open(large, "rb+") as file:
                if how == "shorter":
                    file.truncate(file.seek(0, os.SEEK_END) - 100)
                else:
                    file.seek(0, os.SEEK_END if how == "longer" else os.SEEK_SET)
                    file.write(b"more")
        return None

    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        store.put("data/large", b"as it was")
        proxy.faults = touch
        result = up(folder, store)
        assert counts(result) == (1, 0, 0, 1)
        ((path, why),) = result.changed
        assert path == "large"
        assert why in ("it changed while it was being read", "it became shorter while it was being read")
        assert store.get("data/large") == b"as it was"
        assert not result.ok


def test_a_large_file_that_changes_once_is_read_again(azurite: Azurite, folder: Path) -> None:
    write(folder, {"large": noise(25 << 20)})
    other = noise(25 << 20, seed=5)
    changed = False

    def touch(request: Request) -> Fault | None:
        nonlocal changed
        if "comp=block&" in request.path and not changed:
            changed = True
            (folder / "large").write_bytes(other)
        return None

    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        proxy.faults = touch
        assert counts(up(folder, store)) == (1, 0, 0, 0)
        assert store.get("data/large") == other


def test_files_that_vanish_or_grow_after_the_plan(folder: Path) -> None:
    write(folder, {"gone": b"1", "grown": b"1", "stays": b"1"})
    store = MemoryStore()
    planned = plan(LocalEnd(folder), StoreEnd(store, "data"))
    os.unlink(folder / "gone")
    grown = noise(9 << 20)
    write(folder, {"grown": grown})
    result = run(planned)
    assert counts(result) == (2, 0, 0, 1)
    assert list(result.failed) == [("gone", "no such file or directory")]
    assert store.get("data/grown") == grown


def test_odd_files_are_named_and_keep_deletions_back(folder: Path) -> None:
    from gofer.transfer import TransferOptions

    write(folder, {"file": b"1"})
    os.mkfifo(folder / "pipe")
    store = MemoryStore()
    store.put("data/extra", b"1")
    result = up(folder, store, options=TransferOptions(delete=True))
    assert counts(result) == (1, 0, 0, 1)
    assert list(result.odd) == [("pipe", "is a pipe")]
    assert result.kept == 1
    assert store.get("data/extra") == b"1"


def test_a_store_that_takes_nothing_ends_it(folder: Path, tmp_path: Path) -> None:
    """One whose folder became a file: every write fails in the same way."""
    write(folder, {f"d/{n}": b"1" for n in range(200)})
    store = FileStore(tmp_path / "store", create=True)
    write(tmp_path / "store", {"data": b"in the way"})
    with pytest.raises(StoreError, match="50 files in a row failed, the last: cannot write"):
        up(folder, store)
    assert read(tmp_path / "store") == {"data": b"in the way"}


def test_a_name_with_an_escaped_zero_byte_fails_alone_and_forges_nothing(moto: Moto, folder: Path) -> None:
    """Somebody else chooses names in the bucket: one that would end a record early, with facts behind it."""
    bucket = moto.new_bucket()
    forged = "zz\u201b00" + "".join(f"\u201b{byte:02X}" for byte in b"(\x00\x87\x93\x03")
    for name in ("plain", "a\u201b00b", forged):
        moto.client().put_object(Bucket=bucket, Key=f"some/folder/data/{name}", Body=b"content")
    result = run(plan(StoreEnd(s3_store(moto, bucket=bucket), "data"), LocalEnd(folder)))
    assert counts(result) == (1, 0, 0, 2)
    assert (folder / "plain").read_bytes() == b"content"
    assert not (folder / "zz").exists()
