"""Packed folders: what is stored, what is sent, who wins, and that every byte comes back."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from data.project import Project, same

from gofer.errors import StoreError
from gofer.storage.base import Bytes
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore
from gofer.transfer.packs import fill
from gofer.transfer.packs.fill import Filler, LocalFile
from gofer.transfer.packs.store import PackView
from gofer.transfer.packs.view import index_key, open_packed, packs_key
from gofer.transfer.packs.write import Written, forget, pack, prepare


def scan(folder: Path) -> list[LocalFile]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [
        LocalFile(
            os.fsencode(path.relative_to(folder)), str(path), path.stat().st_size, path.stat().st_mtime_ns
        )
        for path in files
    ]


def send(store: MemoryStore | FileStore, root: str, folder: Path) -> Written:
    return pack(store, root, prepare(store, root, scan(folder)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    for number in range(30):
        path = made / f"d{number % 3}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(100 * number))
    return made


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore("packs")


def contents(view: PackView, prefix: str) -> dict[str, bytes]:
    return {info.key: view.get(info.key) for info in list(view.list(prefix))}


# -- the commands


def test_a_packed_folder_comes_back_as_it_was(project: Project) -> None:
    project.fill("data/voc20", 60)
    done = project.gofer("u", "--pack", "data/voc20")
    assert "73 files" in done.err
    assert [key.split("/")[3:-1] for key in project.objects] == [
        [".gofer-pack", "index"],
        [".gofer-pack", "packs"],
    ]
    before = project.away("data/voc20")
    project.gofer("d", "data/voc20")
    same(before, project.data / "voc20")
    assert not [path for path in project.data.rglob("*") if path.is_symlink()]
    assert (project.data / "voc20/run.sh").stat().st_mtime == pytest.approx(
        (before / "run.sh").stat().st_mtime
    )
    assert "nothing to do" in project.gofer("d", "data/voc20").err
    assert "nothing to do" in project.gofer("u", "--pack", "data/voc20").err


def test_the_commands_see_the_files_inside(project: Project) -> None:
    project.fill("data/x/voc20")
    project.gofer("u", "--pack", "data/x/voc20")
    project.write("data/x/loose", b"1")
    project.gofer("u", "data/x/loose")
    assert project.paths("data/x") == ["data/x/loose", "data/x/voc20/"]
    assert project.paths("data/x/voc20/part1/1") == [
        f"data/x/voc20/part1/{n}.bin" for n in (1, 10, 13, 16, 19)
    ]
    assert len(project.paths("-r", "data")) == 34
    listed = {one["path"]: one["size"] for one in project.listed("-r", "data/x/voc20")}
    for path, size in listed.items():
        assert size == os.path.getsize(project.folder / path)
    assert project.gofer("cat", "data/x/voc20/run.sh").out == "#!/bin/sh\n"
    assert json.loads(project.gofer("du", "--json", "data/x").out)[-1]["files"] == 34


def test_parts_of_a_packed_folder_can_be_fetched(project: Project) -> None:
    before = project.fill("data/voc20")
    project.gofer("u", "--pack", "data/voc20")
    before = project.away("data/voc20")
    project.gofer("d", "data/voc20/part1", "data/voc20/*.sh")
    same(before / "part1", project.data / "voc20/part1")
    assert sorted(os.listdir(project.data / "voc20")) == ["part1", "run.sh"]


def test_a_packed_folder_stays_packed(project: Project) -> None:
    project.fill("data/voc20")
    project.gofer("u", "--pack", "data/voc20")
    project.write("data/voc20/new", b"new")
    project.write("data/voc20/part0/0.bin", b"changed")
    assert "2 files" in project.gofer("u", "data/voc20").err
    project.write("data/voc20/deep/er", b"deeper")
    project.gofer("u", "data/voc20/deep/er")
    assert all(".gofer-pack" in key for key in project.objects)
    before = project.away("data/voc20")
    project.gofer("d", "data/voc20")
    same(before, project.data / "voc20")


def test_what_was_loose_is_packed_and_no_longer_loose(project: Project) -> None:
    project.fill("data/voc20")
    project.gofer("u", "data/voc20")
    project.gofer("u", "--pack", "data/voc20")
    assert all(".gofer-pack" in key for key in project.objects)
    assert len(project.paths("-r", "data/voc20")) == 33


def test_packing_a_folder_that_has_a_packed_one_in_it(project: Project) -> None:
    project.fill("data/x/voc20")
    project.write("data/x/other", b"1")
    project.gofer("u", "--pack", "data/x/voc20")
    project.gofer("u", "--pack", "data/x")
    assert {key.split("/.gofer-pack/")[0] for key in project.objects} == {"me/data/x"}
    project.write("data/x/voc20/run.sh", b"newer")
    project.gofer("u", "data/x/voc20")
    assert project.gofer("cat", "data/x/voc20/run.sh").out == "newer"
    assert len(project.paths("-r", "data/x")) == 34


def test_rm_takes_files_out_of_packs(project: Project) -> None:
    project.fill("data/voc20")
    project.gofer("u", "--pack", "data/voc20")
    assert "7 files removed" in project.gofer("rm", "-y", "data/voc20/part0").err
    assert len(project.paths("-r", "data/voc20")) == 26
    assert not [path for path in project.paths("-r", "data/voc20") if "part0" in path]
    project.gofer("rm", "-y", "data/voc20")
    assert project.objects == []


def test_sync_makes_a_packed_folder_the_same(project: Project) -> None:
    project.fill("data/voc20")
    project.gofer("u", "--pack", "data/voc20")
    (project.data / "voc20/run.sh").unlink()
    (project.data / "voc20/link").unlink()
    project.write("data/voc20/new", b"n")
    dry = project.gofer("sync", "./data/voc20", "data/voc20", "--delete", "--dry-run").out
    assert [line.split()[-1] for line in dry.splitlines() if line.startswith("delete")] == [
        "data/voc20/link",
        "data/voc20/run.sh",
    ]
    assert len(project.paths("-r", "data/voc20")) == 33
    project.gofer("sync", "./data/voc20", "data/voc20", "--delete")
    before = project.away("data/voc20")
    project.gofer("d", "data/voc20")
    same(before, project.data / "voc20")


def test_sync_of_loose_files_leaves_packs_beside_them_alone(project: Project) -> None:
    project.fill("data/x/packed")
    project.gofer("u", "--pack", "data/x/packed")
    project.write("data/x/loose")
    (project.data / "x/packed").rename(project.root / "elsewhere")
    project.gofer("sync", "./data/x", "data/x", "--delete")
    assert len(project.paths("-r", "data/x/packed")) == 33


def test_packs_are_copied_as_they_are_and_files_out_of_them_one_by_one(project: Project) -> None:
    before = project.fill("data/voc20")
    project.gofer("u", "--pack", "data/voc20")
    project.gofer("cp", "data/voc20", "s:copy")
    assert [key for key in project.objects if key.startswith("copy/")] == [
        key.replace("me/data/voc20", "copy") for key in project.objects if key.startswith("me/")
    ]
    project.gofer("cp", "data/voc20/part1", "s:part")
    assert len([key for key in project.objects if key.startswith("part/")]) == 7
    project.gofer("cp", "s:copy", "./back")
    same(before, project.folder / "back")


def test_copying_onto_a_packed_folder_is_seen(project: Project) -> None:
    project.write("data/one/a", b"1")
    project.write("data/two/a", b"2")
    project.write("data/two/b", b"2")
    project.gofer("u", "--pack", "data/one")
    project.gofer("u", "--pack", "data/two")
    project.gofer("cp", "data/one", "data/two")
    assert project.gofer("cat", "data/two/a").out == "1"
    assert project.gofer("cat", "data/two/b").out == "2"
    done = project.gofer("sync", "data/one", "data/two", "--delete", status=2)
    assert "does not remove files from the packed folder `data/two`" in done.err


def test_files_under_gofers_own_name_are_not_packed(project: Project) -> None:
    project.write("data/x/.gofer-pack/index/000009", b"evil")
    project.write("data/x/a", b"1")
    done = project.gofer("u", "--pack", "data/x", status=1)
    assert "gofer's own" in done.err
    assert project.paths("-r", "data/x") == ["data/x/a"]


# -- writing


def test_only_new_bytes_are_sent(store: MemoryStore, folder: Path) -> None:
    first = send(store, "r", folder)
    assert (first.files, first.sent_packs) == (30, 1)
    assert send(store, "r", folder).sent_packs == 0
    (folder / "d0/0.bin").write_bytes(b"new")
    second = send(store, "r", folder)
    assert (second.files, second.sent_bytes, second.skipped) == (1, 3, 29)
    assert contents(PackView(store), "r")["r/d0/0.bin"] == b"new"
    assert len(list(store.list(index_key("r")))) == 1


def test_a_killed_writer_sends_only_the_rest(folder: Path, store: MemoryStore) -> None:
    big = folder / "big"
    big.write_bytes(os.urandom(3 * fill.PACK_BYTES + 5))

    class Dying(MemoryStore):
        def put(self, key: str, data: Bytes, *, new: bool = False) -> None:
            if new:
                raise StoreError("the plug was pulled")
            store.put(key, data)

    with pytest.raises(StoreError, match="plug"):
        send(Dying("dying"), "r", folder)
    assert open_packed(store, "r") is None
    again = send(store, "r", folder)
    assert (again.files, again.sent_packs, again.sent_bytes) == (31, 0, 0)
    assert PackView(store).get("r/big") == big.read_bytes()


def test_a_file_larger_than_a_pack_lies_in_several(store: MemoryStore, folder: Path) -> None:
    data = os.urandom(2 * fill.PACK_BYTES + 1000)
    (folder / "a-big").write_bytes(data)
    send(store, "r", folder)
    view = PackView(store)
    assert view.get("r/a-big") == data
    edge = fill.PACK_BYTES
    assert view.get_range("r/a-big", edge - 10, 20) == data[edge - 10 : edge + 10]
    assert view.get_range("r/a-big", -7, 100) == data[-7:]
    assert b"".join(view.get_stream("r/a-big", 5)) == data[5:]
    assert max(info.size for info in store.list(packs_key("r"))) <= 64 << 20


def test_two_writers_at_once_lose_nothing(store: MemoryStore, tmp_path: Path) -> None:
    folders = []
    for writer in range(4):
        folders.append(tmp_path / str(writer))
        folders[-1].mkdir()
        for number in range(20):
            (folders[-1] / f"{writer}-{number}").write_bytes(b"%d %d" % (writer, number))
    threads = [threading.Thread(target=send, args=(store, "r", one)) for one in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = contents(PackView(store), "r")
    assert found == {f"r/{w}-{n}": b"%d %d" % (w, n) for w in range(4) for n in range(20)}


def test_a_file_that_changes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    path.write_bytes(b"x" * (fill.PACK_BYTES + 10))
    filler = Filler()
    for _ in filler.packs([LocalFile(b"growing", str(path), 1, 1)]):
        with open(path, "ab") as file:
            file.write(b"more")
    assert (filler.changed, filler.files) == ([str(path)], [])


def test_a_file_that_cannot_be_read_stops_no_other(store: MemoryStore, folder: Path) -> None:
    files = [*scan(folder), LocalFile(b"gone", str(folder / "gone"), 1, 1)]
    done = pack(store, "r", prepare(store, "r", files))
    assert done.failed == [(str(folder / "gone"), "no such file or directory")]
    assert done.files == 30


def test_a_damaged_pack_is_noticed(store: MemoryStore, folder: Path) -> None:
    send(store, "r", folder)
    (info,) = store.list(packs_key("r"))
    store.put(info.key, b"\0" * info.size)
    with pytest.raises(StoreError, match="damaged"):
        PackView(store).get("r/d2/29.bin")
    store.put(info.key, b"short")
    with pytest.raises(StoreError, match="damaged"):
        PackView(store).get("r/d2/29.bin")


def test_packs_that_nobody_needs_are_removed(store: MemoryStore, folder: Path) -> None:
    send(store, "r", folder)
    for path in folder.rglob("*.bin"):
        path.write_bytes(os.urandom(50))
    send(store, "r", folder)
    assert len(list(store.list(packs_key("r")))) == 1
    forget(store, "r", [file.name for file in scan(folder)])
    assert list(store.list("")) == []


# -- reading


def test_an_object_beside_the_packs_wins(store: MemoryStore, folder: Path) -> None:
    send(store, "r", folder)
    store.put("r/d0/0.bin", b"in front")
    store.put("r/-early", b"before the index in the listing")
    (folder / "-early").write_bytes(b"hidden")
    send(store, "other", folder)
    store.put("other/-early", b"in front")
    for view in (PackView(store), PackView(store, ahead=True)):
        found = contents(view, "r")
        assert found["r/d0/0.bin"] == b"in front"
        assert len(found) == 31
        assert [info.key for info in view.list("other")].count("other/-early") == 1
        assert view.get("other/-early") == b"in front"
        view.close()


def test_folders_packed_inside_a_listing(store: MemoryStore, folder: Path) -> None:
    send(store, "top/a", folder)
    send(store, "top/c/d", folder)
    store.put("top/b", b"b")
    store.put("top/z", b"z")
    view = PackView(store)
    keys = [info.key for info in view.list("top")]
    assert keys == sorted(keys)
    assert len(keys) == 62
    assert list(view.list_folders("top")) == ["a", "c"]
    assert list(view.list_folders("top/a")) == ["d0", "d1", "d2"]
    assert list(view.list_folders("top/c/d/d1")) == []
    assert [info.key for info in PackView(store).list("top/a/d1/1.bin")] == ["top/a/d1/1.bin"]
    assert len(list(PackView(store).list_beginning("top/c/d/d1/1"))) == 5
    assert view.head("top/nothing") is None


class Counting(MemoryStore):
    """A store that counts its requests."""

    def __init__(self) -> None:
        super().__init__("counting")
        self.ranges = 0
        self.others = 0

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.ranges += 1
        return super().get_range(key, start, length)

    def get(self, key: str) -> bytes:
        self.others += 1
        return super().get(key)


def test_reading_all_files_takes_few_requests(folder: Path) -> None:
    store = Counting()
    for number in range(2000):
        (folder / f"{number}").write_bytes(b"%d" % number * 100)
    send(store, "r", folder)
    view = PackView(store, ahead=True)
    store.ranges = store.others = 0
    found = contents(view, "r")
    assert len(found) == 2030
    assert found["r/77"] == b"77" * 100
    assert store.ranges + store.others < 10
    view.close()


def test_a_reader_of_an_index_that_was_replaced_finds_the_new_one(store: MemoryStore, folder: Path) -> None:
    send(store, "r", folder)
    view = PackView(store)
    before = contents(view, "r")
    for path in folder.rglob("*.bin"):
        path.write_bytes(path.read_bytes() + b"!")
    send(store, "r", folder)
    for key, data in before.items():
        assert view.get(key) == (data + b"!" if data else b""), "an empty file is not asked for"


def test_damage_in_an_index_says_what_to_do(store: MemoryStore) -> None:
    store.put(index_key("r", 1), b"nonsense")
    with pytest.raises(StoreError) as caught:
        list(PackView(store).list("r"))
    assert "r/.gofer-pack/index/000001" in caught.value.message
    assert caught.value.hint == "`gofer u --pack` writes a new index"
