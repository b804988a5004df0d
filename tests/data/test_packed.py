"""`gofer.open` and `gofer.PackedFolder`: files of a store from Python, also in the workers of a loader."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import chdir
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from calls import counted
from data.project import NO_UTF8, Project

import gofer
from gofer.errors import KeyNotFound, UnknownName
from gofer.transfer.packs.fill import LocalFile
from gofer.transfer.packs.write import pack, prepare


@pytest.fixture
def voc(project: Project) -> Iterator[Project]:
    """Changes into a project whose `data/voc20` is packed and has no local copy."""
    project.fill("data/voc20")
    project.write("data/plain/big", os.urandom(3_000_000))
    project.gofer("u", "--pack", "data/voc20")
    project.gofer("u", "data/plain")
    before = dict(os.environ)
    resource_tracker.ensure_running()  # it outlives the test, so it must not look like one of its processes
    os.environ.update(project.environ)
    with chdir(project.folder):
        yield project
    os.environ.clear()
    os.environ.update(before)


def bytes_of(project: Project, name: str) -> bytes:
    return (project.folder / name).read_bytes()


def test_a_file_out_of_a_pack(voc: Project) -> None:
    with gofer.open("data/voc20/part1/1.bin") as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read() == bytes_of(voc, "data/voc20/part1/1.bin")
        assert file.read() == b""
    with gofer.open("data/voc20/empty") as file:
        assert file.read() == b""


def test_a_plain_file_with_random_access(voc: Project) -> None:
    data = bytes_of(voc, "data/plain/big")
    with gofer.open("data/plain/big") as file:
        assert file.seek(-100, os.SEEK_END) == len(data) - 100
        assert file.read(50) == data[-100:-50]
        file.seek(1_234_567)
        assert file.read(10) == data[1_234_567:1_234_577]
        assert file.seek(-5, os.SEEK_CUR) == 1_234_572
        assert file.read() == data[1_234_572:]
        file.seek(len(data) + 10)
        assert file.read() == b""
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)


def test_what_reads_files_reads_these(voc: Project) -> None:
    with zipfile.ZipFile(voc.write("data/voc20/a.zip"), "w") as archive:
        archive.writestr("inner.txt", "found")
    voc.gofer("u", "data/voc20")
    with gofer.open("data/voc20/a.zip") as file, zipfile.ZipFile(file) as archive:
        assert archive.read("inner.txt") == b"found"


@pytest.mark.parametrize("path", ["data/voc20/nothing", "data/voc20", "data/nothing/x"])
def test_what_is_not_there(voc: Project, path: str) -> None:
    with pytest.raises(KeyNotFound):
        gofer.open(path)


def test_what_is_in_no_folder(voc: Project) -> None:
    with pytest.raises(UnknownName):
        gofer.open("nowhere/x")
    for path in ("data/nothing", "data/voc20/nothing"):
        with pytest.raises(KeyNotFound):
            gofer.PackedFolder(path)


def test_a_folder_is_a_mapping(voc: Project) -> None:
    folder = gofer.PackedFolder("data/voc20")
    assert len(folder) == 33
    assert list(folder) == folder.names == sorted(folder.names)
    assert NO_UTF8 + "/" + NO_UTF8 in folder
    assert "absent" not in folder
    for name, data in folder.items():
        assert data == bytes_of(voc, f"data/voc20/{name}")
        assert folder.size(name) == len(data)
    with folder.open("run.sh") as file:
        assert file.readline() == b"#!/bin/sh\n"
    for name in ("absent", "part1", ""):
        with pytest.raises(KeyError):
            folder[name]
    assert repr(folder) == "PackedFolder('data/voc20')"


def test_a_folder_inside_a_packed_one_and_one_that_is_not_packed(voc: Project) -> None:
    inner = gofer.PackedFolder("data/voc20/part1")
    assert inner.names[0] == "1.bin"
    assert inner["1.bin"] == bytes_of(voc, "data/voc20/part1/1.bin")
    plain = gofer.PackedFolder("data/plain")
    assert plain.names == ["big"]
    assert plain["big"] == bytes_of(voc, "data/plain/big")


def test_from_another_folder_and_with_a_target(voc: Project, tmp_path: Path) -> None:
    with chdir(tmp_path):
        folder = gofer.PackedFolder("data/voc20", folder=voc.folder, target="local")
        assert folder["run.sh"] == b"#!/bin/sh\n"
        with gofer.open("data/voc20/run.sh", folder=voc.folder) as file:
            assert file.read() == b"#!/bin/sh\n"


def test_a_folder_that_is_packed_again_meanwhile(voc: Project) -> None:
    folder = gofer.PackedFolder("data/voc20")
    for path in (voc.data / "voc20/part0").iterdir():
        path.write_bytes(b"new")
    (voc.data / "voc20/run.sh").write_bytes(b"#!/bin/false")
    for path in (voc.data / "voc20").rglob("*.bin"):
        path.write_bytes(b"all new")
    voc.gofer("u", "data/voc20")
    assert folder["part0/0.bin"] == b"all new"
    assert folder["run.sh"] == b"#!/bin/false"


def length(folder: gofer.PackedFolder, name: str) -> tuple[int, int]:
    return len(folder[name]), os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_with_connections_of_their_own(voc: Project, method: str) -> None:
    folder = gofer.PackedFolder("data/voc20")
    assert len(folder["part1/1.bin"]) >= 0
    names = folder.names
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap(length, [(folder, name) for name in names])
    assert [size for size, _ in found] == [folder.size(name) for name in names]
    assert os.getpid() not in {pid for _, pid in found}


def test_a_pickle_is_small_and_holds_no_secret(voc: Project) -> None:
    folder = gofer.PackedFolder("data/voc20")
    data = pickle.dumps(folder)
    assert len(data) < 10_000
    again = pickle.loads(data)
    assert again.names == folder.names
    assert again["run.sh"] == b"#!/bin/sh\n"


def test_a_hundred_thousand_files(voc: Project, tmp_path: Path) -> None:
    from gofer.storage.file import FileStore

    one = tmp_path / "one"
    one.write_bytes(b"same")
    store = FileStore(voc.store)
    files = [
        LocalFile(b"t/%04d/%06d" % (n % 1000, n), str(one), 4, one.stat().st_mtime_ns) for n in range(100_000)
    ]
    pack(store, "me/data/many", prepare(store, "me/data/many", files))
    content, calls = counted(lambda: gofer.PackedFolder("data/many")["t/0777/050777"])
    assert content == b"same"
    assert calls <= 3 * len(files)
    assert len(gofer.PackedFolder("data/many")) == 100_000


def test_import_gofer_loads_none_of_it() -> None:
    import subprocess
    import sys

    code = "import gofer, sys; print([m for m in sys.modules if m.startswith('gofer.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
