"""The files of a run come home as they were, from a folder and from an object store, through no link."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from home import Home

from gofer.core import run_layout as names
from gofer.errors import UsageError
from gofer.node.kept import records
from gofer.node.kept.records import KeptFile
from gofer.ops.files.run_files import FetchedFiles, bring
from gofer.ops.runs.run_folder import RunFolder
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore

RUN = "r261116-091233-k9qd4x"
LONG_AGO_NS = 1_600_000_000_123_456_789


def facts(top: Path) -> dict[str, tuple[object, ...]]:
    """Kind, mode, time, and bytes or target of everything below a folder, by path."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        what: object = None
        if path.is_symlink():
            what = os.readlink(path)
        elif path.is_file():
            what = path.read_bytes()
        mode = None if path.is_symlink() else stat.S_IMODE(status.st_mode)
        found[str(path.relative_to(top))] = (stat.S_IFMT(status.st_mode), mode, status.st_mtime_ns, what)
    return found


def make_outputs(top: Path) -> None:
    (top / "d ü" / "deep").mkdir(parents=True)
    (top / "empty").mkdir(mode=0o750)
    (top / "d ü" / "x").write_bytes(b"1")
    (top / "prog").write_bytes(b"#!/bin/sh\n")
    (top / "prog").chmod(0o755)
    (top / "private").write_bytes(b"")
    (top / "private").chmod(0o600)
    (top / "latest").symlink_to("d ü/x")
    (top / "cur").symlink_to("d ü")
    (top / "dangling").symlink_to("/nowhere/at all")
    with open(top / "sparse", "wb") as file:
        file.seek(40 << 20)
        file.write(b"end")
    for path in [*top.rglob("*"), top / "d ü"]:
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS), follow_symlinks=False)


def test_a_folder_comes_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path / "store", create=True)
    top = store.root / names.outputs_key(RUN)
    make_outputs(top)
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(top)  # a socket's path is short
        bound.bind("sock")
    os.mkfifo(top / "d ü" / "pipe")
    home = tmp_path / "home" / "outputs"
    found = bring(RunFolder(store, RUN), "outputs", home)
    assert found == FetchedFiles(7, (), (("d ü/pipe", "is a pipe"), ("sock", "is a socket")))
    os.unlink(top / "sock")
    os.unlink(top / "d ü" / "pipe")
    os.utime(top / "d ü", ns=(LONG_AGO_NS, LONG_AGO_NS))
    os.utime(home / "d ü", ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert facts(home) == facts(top)
    assert (home / "sparse").stat().st_blocks * 512 < 1 << 20
    assert bring(RunFolder(store, RUN), "outputs", home).files == 7
    assert bring(RunFolder(store, RUN), "files", tmp_path / "none") == FetchedFiles()
    assert not (tmp_path / "none").exists()


def test_objects_come_with_what_the_nodes_wrote_of_them(tmp_path: Path) -> None:
    """The lists of two nodes: of each, that of its last attempt."""
    source = tmp_path / "source"
    make_outputs(source)
    store = MemoryStore("memory://run-files")
    listed: list[KeptFile] = []
    for path in sorted(source.rglob("*")):
        name, status = str(path.relative_to(source)), path.lstat()
        target = os.readlink(path) if path.is_symlink() else None
        if target is not None or path.is_file() or not any(path.iterdir()):
            listed.append(records.describe("outputs", name, status, target))
        if target is None and path.is_file():
            store.put(f"{names.outputs_key(RUN)}/{name}", path.read_bytes())
    first, second = listed[::2], listed[1::2]
    gone = KeptFile("outputs", "gone", "l", 1, 1, 0o777, "x")
    for attempt, node, lines in ((1, 0, [gone]), (2, 0, first), (1, 1, second)):
        key = f"{names.node_key(RUN, attempt, node)}/{names.FILE_LIST}"
        store.put(key, records.encode_list(lines))
    home = tmp_path / "home"
    assert bring(RunFolder(store, RUN), "outputs", home) == FetchedFiles(7)
    os.utime(home / "d ü", ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert facts(home) == facts(source)
    assert (home / "sparse").stat().st_blocks * 512 < 2 << 20


def test_objects_without_a_list_have_the_time_of_the_store(tmp_path: Path) -> None:
    """Also when they are seconds old; and such a young one is read again."""
    store = MemoryStore("memory://young")
    key = f"{names.files_key(RUN)}/node-1/x"
    store.put(key, b"one")
    written = store.head(key)
    assert written is not None
    bring(RunFolder(store, RUN), "files", tmp_path / "out")
    assert abs((tmp_path / "out" / "node-1" / "x").stat().st_mtime - written.modified) < 0.1
    store.put(key, b"two")
    bring(RunFolder(store, RUN), "files", tmp_path / "out")
    assert (tmp_path / "out" / "node-1" / "x").read_bytes() == b"two"


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"mine")
    home = tmp_path / "home"
    home.mkdir()
    (home / "d").symlink_to(outside)
    store = MemoryStore("memory://links")
    store.put(f"{names.outputs_key(RUN)}/d/x", b"theirs")
    store.put(f"{names.outputs_key(RUN)}/suid", b"")
    planted = [
        KeptFile("outputs", "e", "l", 1, 1, 0o777, str(outside)),
        KeptFile("outputs", "e/y", "d", 0, 1, 0o777),
        KeptFile("outputs", "d", "l", 1, 1, 0o777, str(outside)),
        KeptFile("outputs", "suid", "x", 0, 1, 0o6777),
    ]
    store.put(f"{names.node_key(RUN, 1, 0)}/{names.FILE_LIST}", records.encode_list(planted))
    found = bring(RunFolder(store, RUN), "outputs", home)
    assert [path for path, _ in found.failed] == ["d"]
    assert os.listdir(outside) == ["x"] and (outside / "x").read_bytes() == b"mine"
    assert (home / "d" / "x").read_bytes() == b"theirs"
    assert stat.S_IMODE((home / "suid").stat().st_mode) == 0o777
    (tmp_path / "elsewhere").symlink_to(outside)
    with pytest.raises(UsageError, match="is not a folder"):
        bring(RunFolder(store, RUN), "outputs", tmp_path / "elsewhere")


def test_a_folder_that_cannot_be_read_costs_one_line(home: Home) -> None:
    """Of a whole run, by the command: the rest comes, and the exit status says it."""
    script = "cd $GOFER_OUTPUT_DIR; mkdir shut; echo 1 > shut/x; echo 2 > keep; ln -s keep latest"
    run = home.finish("sh", "-c", script)
    shut = home.run_folder(run["id"]) / "outputs" / "shut"
    shut.chmod(0)
    words = ["extract", run["id"], str(home.root / "out")]
    listing = ["ls", "-r", f"{run['id']}:"]
    code = (
        "import ctypes, os, sys\n"
        "prctl = ctypes.CDLL(None, use_errno=True).prctl\n"
        "for capability in (1, 2): prctl(24, capability, 0, 0, 0)\n"  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        "os.execvp(sys.argv[1], sys.argv[1:])\n"
    )

    def gofer(words: list[str]) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", code, *home.argv(*words)]
        return subprocess.run(
            argv, cwd=home.folder, env=home.environ, capture_output=True, text=True, check=False
        )

    try:
        done, listed = gofer(words), gofer(listing)
    finally:
        shut.chmod(0o700)
    assert listed.returncode == 1
    names = [line.split()[-1].partition(":")[2] for line in listed.stdout.splitlines()]
    assert names == ["keep", "latest"]
    assert "cannot list" in listed.stderr and "permission denied" in listed.stderr
    assert done.returncode == 1, done.stderr
    assert "error: outputs/shut did not come: permission denied" in done.stderr.splitlines()
    assert "2 output files in" in done.stderr
    assert (home.root / "out" / "outputs" / "keep").read_text() == "2\n"
    assert os.readlink(home.root / "out" / "outputs" / "latest") == "keep"
