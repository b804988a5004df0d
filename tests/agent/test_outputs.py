"""Outputs on their way to a store and back: whole versions only, nothing twice, and all of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.moto import Moto
from services.proxy import Fault, proxied

from gofer.core import run_layout
from gofer.core.store_spec import StoreSpec
from gofer.node.kept import records
from gofer.node.kept.records import KeptFile
from gofer.node.uploader import restore
from gofer.node.uploader.outputs import Outputs
from gofer.node.uploader.run_folder import RunFolderUploader
from gofer.objects import open_objects
from gofer.objects.files import FileObjects

RUN = "r261116-091233-k9qd4x"
OUTPUTS = run_layout.outputs_key(RUN)
# Each version is the digest of what follows, and that; written in place, with rests of about two seconds.
_WRITER = """
import hashlib, os, random, sys, time
path, rng = sys.argv[1], random.Random(7)
for number in range(8):
    body = rng.randbytes(1024) * 20_000
    data = hashlib.sha256(body).hexdigest().encode() + b"\\n" + body
    with open(path, "r+b" if number else "wb", buffering=0) as file:
        for at in range(0, len(data), 65536):
            file.write(data[at : at + 65536])
    time.sleep(rng.choice([2.02, 2.05, 2.1, 2.6]))
"""
_BRING = """
import json, select, sys
from gofer.node.folders.mapped import FolderFailed, FolderStopped
from gofer.node.uploader.restore import EarlierOutputs
spec, spool, run = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
keep_on, alone = sys.argv[4] == "1", sys.argv[5] == "1"
def wait(fd):
    select.select([fd], [], [], 0.1)
    return keep_on
try:
    EarlierOutputs(spec, spool, run, alone, 0, 2).bring(spool + "/log", lambda *_, **__: None, wait)
    print(open(spool + "/log").read(), end="")
except (FolderFailed, FolderStopped) as error:
    print(type(error).__name__, error)
"""


def is_whole(data: bytes) -> bool:
    head, _, body = data.partition(b"\n")
    return hashlib.sha256(body).hexdigest().encode() == head


class Counting(FileObjects):
    """A folder for a store that remembers what it was sent."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.sent: list[str] = []

    def put_stream(self, key: str, pieces: Iterable[bytes], **options: Any) -> int:
        size = super().put_stream(key, pieces, **options)
        self.sent.append(key.removeprefix(f"{OUTPUTS}/"))
        return size


@pytest.fixture(params=["file", "azure", "s3"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSpec:
    """The node's settings for a new store of each kind."""
    if request.param == "file":
        (tmp_path / "store").mkdir()
        return {"kind": "file", "root": str(tmp_path / "store")}
    if request.param == "azure":
        return blobs(request.getfixturevalue("azurite"))
    server: Moto = request.getfixturevalue("moto")
    keys: StoreSpec = {"access_key": server.access_key, "secret_key": server.secret_key}
    return {"kind": "s3", "endpoint": server.endpoint, "bucket": server.new_bucket(), "prefix": "pre", **keys}


def blobs(azurite: Azurite, endpoint: str = "") -> StoreSpec:
    account = azurite.one
    where: StoreSpec = {"kind": "azure", "endpoint": endpoint or account.endpoint, "prefix": "pre"}
    where["container"] = account.new_container()
    return {**where, "account": account.name, "key": account.key}


def write(spool: Path, name: str, data: bytes, *, age_s: float = 60.0) -> Path:
    path = spool / OUTPUTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    at = time.time() - age_s
    os.utime(path, (at, at))
    return path


# -- whole versions


@pytest.mark.slow
@pytest.mark.net
def test_a_file_that_is_rewritten_again_and_again_is_in_the_store_whole(
    spec: StoreSpec, tmp_path: Path
) -> None:
    """In blocks, where the store takes blocks; the next version often comes while one is on its way."""
    path = tmp_path / "spool" / OUTPUTS / "last.ckpt"
    path.parent.mkdir(parents=True)
    objects = open_objects(spec)
    box = Outputs(str(tmp_path / "spool"), objects, ("*",))
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)]) as writer:
        seen: set[bytes] = set()
        while writer.poll() is None or not seen:
            box.upload_changes(RUN)
            if objects.head(f"{OUTPUTS}/last.ckpt") is not None:
                data = objects.get(f"{OUTPUTS}/last.ckpt")
                assert is_whole(data)
                seen.add(data[:64])
            time.sleep(0.01)
    assert writer.returncode == 0 and seen
    assert box.finish(RUN) == []
    assert objects.get(f"{OUTPUTS}/last.ckpt") == path.read_bytes()


def test_what_is_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    path = write(tmp_path / "spool", "a", b"x" * 3_000_000)
    box = Outputs(str(tmp_path / "spool"), Touching(str(tmp_path / "store"), path), ("*",))
    box.upload_changes(RUN)
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


class Touching(FileObjects):
    """A store that is so slow that the file has been written to when its first piece has arrived."""

    def __init__(self, root: str, path: Path) -> None:
        super().__init__(root)
        self._touched = path

    def put_stream(self, key: str, pieces: Iterable[bytes], **options: Any) -> int:
        def slow() -> Iterator[bytes]:
            for piece in pieces:
                yield piece
                with self._touched.open("r+b") as file:
                    file.write(b"y")

        return super().put_stream(key, slow(), **options)


@pytest.mark.slow
def test_a_file_that_never_holds_still_is_named_at_the_end_and_all_else_is_sent(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    path = write(tmp_path / "spool", "d/restless", b"x" * 2_000_000)
    write(tmp_path / "spool", "calm", b"1")
    log = tmp_path / "spool" / run_layout.node_key(RUN, 1, 0) / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("words\n")
    box = RunFolderUploader(str(tmp_path / "spool"), Touching(str(tmp_path / "store"), path))
    assert box.finish(RUN) == "written to after the end of the command: `d/restless`"
    found = {info.key.removeprefix(f"runs/{RUN}/") for info in FileObjects(str(tmp_path / "store")).list()}
    assert found == {"outputs/calm", "attempts/1/node-0/rank-0.log"}


def test_a_file_that_another_takes_the_place_of_is_sent_as_it_was(tmp_path: Path) -> None:
    """A rename replaces a file: an upload that reads the old file completes, and the new file is next."""
    (tmp_path / "store").mkdir()
    path = write(tmp_path / "spool", "last.ckpt", b"1" * 3_000_000)
    new = write(tmp_path / "spool", "next", b"2" * 3_000_000, age_s=30)

    class Replacing(FileObjects):
        def put_stream(self, key: str, pieces: Iterable[bytes], **options: Any) -> int:
            def slow() -> Iterator[bytes]:
                for piece in pieces:
                    yield piece
                    if new.exists():
                        new.replace(path)

            return super().put_stream(key, slow(), **options)

    box = Outputs(str(tmp_path / "spool"), Replacing(str(tmp_path / "store")), ("last*",))
    there = tmp_path / "store" / OUTPUTS / "last.ckpt"
    box.upload_changes(RUN)
    assert there.read_bytes() == b"1" * 3_000_000
    box.upload_changes(RUN)
    assert there.read_bytes() == b"2" * 3_000_000


def test_files_that_vanish_do_not_disturb_the_others(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    names = [f"{number}.tmp" for number in range(200)]
    box = Outputs(str(tmp_path / "spool"), Counting(str(tmp_path / "store")), ("*",))
    for turn in range(10):
        paths = [write(tmp_path / "spool", name, b"x" * turn) for name in names]
        kept = write(tmp_path / "spool", f"kept-{turn}", b"kept")
        remover = threading.Thread(target=lambda gone: [path.unlink() for path in gone], args=(paths,))
        remover.start()
        box.upload_changes(RUN)
        remover.join()
        assert (tmp_path / "store" / OUTPUTS / kept.name).read_bytes() == b"kept"


# -- what the command removes


def held(root: Path) -> list[str]:
    return [info.key.removeprefix(f"{OUTPUTS}/") for info in FileObjects(str(root)).list(OUTPUTS)]


def test_checkpoints_that_take_turns_do_not_pile_up(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    box = Outputs(str(tmp_path / "spool"), FileObjects(str(tmp_path / "store")), ("*",), gone_s=0.0)
    for step in range(1, 6):
        write(tmp_path / "spool", f"{step}.ckpt", b"x")
        if step > 2:
            (tmp_path / "spool" / OUTPUTS / f"{step - 2}.ckpt").unlink()
        box.upload_changes(RUN)
    assert held(tmp_path / "store") == ["4.ckpt", "5.ckpt"]


def test_what_is_gone_for_a_moment_stays_until_the_end(tmp_path: Path) -> None:
    """The command may be about to replace the file, and its node may be killed first."""
    (tmp_path / "store").mkdir()
    box = Outputs(str(tmp_path / "spool"), FileObjects(str(tmp_path / "store")), ("*",))
    path = write(tmp_path / "spool", "last.ckpt", b"x")
    box.upload_changes(RUN)
    path.unlink()
    box.upload_changes(RUN)
    assert held(tmp_path / "store") == ["last.ckpt"]
    write(tmp_path / "spool", "last.ckpt", b"y")
    box.upload_changes(RUN)
    assert (tmp_path / "store" / OUTPUTS / "last.ckpt").read_bytes() == b"y"
    path.unlink()
    assert box.finish(RUN) == []
    assert held(tmp_path / "store") == []


def test_a_folder_that_is_lost_takes_nothing_from_the_store(tmp_path: Path) -> None:
    """Nor what another sent, or one of the run's other nodes."""
    (tmp_path / "store").mkdir()
    objects = FileObjects(str(tmp_path / "store"))
    objects.put(f"{OUTPUTS}/of another", b"")
    box = Outputs(str(tmp_path / "spool"), objects, ("*",), gone_s=0.0)
    path = write(tmp_path / "spool", "last.ckpt", b"x")
    box.upload_changes(RUN)
    path.unlink()
    path.parent.rmdir()
    box.upload_changes(RUN)
    assert box.finish(RUN) == []
    assert held(tmp_path / "store") == ["last.ckpt", "of another"]


@pytest.mark.parametrize("alone", [True, False])
def test_what_was_brought_and_removed_goes_where_no_other_node_might_miss_it(
    azurite: Azurite, tmp_path: Path, alone: bool
) -> None:
    spec, one, two = blobs(azurite), tmp_path / "one", tmp_path / "two"
    write(one, "1.ckpt", b"x")
    Outputs(str(one), open_objects(spec), ()).finish(RUN)
    bring(spec, two, alone=alone)
    (two / OUTPUTS / "1.ckpt").unlink()
    write(two, "2.ckpt", b"x")
    assert Outputs(str(two), open_objects(spec), ()).finish(RUN) == []
    names = [info.key.removeprefix(f"{OUTPUTS}/") for info in open_objects(spec).list(OUTPUTS)]
    assert names == (["2.ckpt"] if alone else ["1.ckpt", "2.ckpt"])


# -- there and back


def bring(spec: StoreSpec, spool: Path, *, keep_on: bool = True, alone: bool = True) -> str:
    """The lines in the log, or why it failed. In a process of its own, since it forks."""
    spool.mkdir(parents=True, exist_ok=True)
    words = [
        sys.executable,
        "-c",
        _BRING,
        json.dumps(spec),
        str(spool),
        RUN,
        str(int(keep_on)),
        str(int(alone)),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.net
@pytest.mark.parametrize("spec", ["azure", "s3"], indirect=True)
def test_what_one_node_sent_another_has_as_it_was(spec: StoreSpec, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for number, name in enumerate(["last.ckpt", "d/e/x y.bin", "d/ü", "empty", "run.sh"]):
        write(one, name, bytes([number]) * (number * 700_000 if name != "empty" else 0), age_s=1000 - number)
    (one / OUTPUTS / "run.sh").chmod(0o755)
    assert Outputs(str(one), open_objects(spec), ()).finish(RUN) == []
    words = bring(spec, two)
    assert words.startswith("gofer: restored 5 files of the outputs, 4,900,000 bytes, in ")

    def records(spool: Path) -> dict[str, tuple[bytes, int, bool]]:
        return {
            str(path.relative_to(spool / OUTPUTS)): (
                path.read_bytes(),
                path.stat().st_mtime_ns,
                os.access(path, os.X_OK),
            )
            for path in (spool / OUTPUTS).rglob("*")
            if path.is_file()
        }

    assert records(two) == records(one)
    assert bring(spec, two) == words  # a second attempt in place brings nothing


def test_kept_files_come_with_their_list_and_without_links(azurite: Azurite, tmp_path: Path) -> None:
    """Files that end in `.log` or `.tmp` are whole objects too. A link is in the list alone."""
    spec, one, two = blobs(azurite), tmp_path / "one", tmp_path / "two"
    files = one / run_layout.files_key(RUN)
    for name in ("ck/step", "train.log", "x.tmp", "node-1/own"):
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(name)
    (files / "latest").symlink_to("/etc/hostname")
    listed = one / run_layout.node_key(RUN, 1, 0) / run_layout.FILE_LIST
    listed.parent.mkdir(parents=True)
    listed.write_bytes(records.encode_list([KeptFile("files", "ck/step", "f", 7, 1, 0o600)]))
    objects = open_objects(spec)
    assert RunFolderUploader(str(one), objects).finish(RUN) is None
    top = run_layout.run_key(RUN)
    assert {info.key.removeprefix(f"{top}/") for info in objects.list(top)} == {
        *("files/ck/step", "files/train.log", "files/x.tmp", "files/node-1/own"),
        "attempts/1/node-0/files.jsonl",
    }
    bring(spec, two)
    brought = two / run_layout.files_key(RUN)
    assert (brought / "ck/step").read_text() == "ck/step"
    assert (brought / "node-1/own").read_text() == "node-1/own"
    assert (two / run_layout.FILE_LIST).read_bytes() == listed.read_bytes()
    outputs = Outputs(str(two), objects, ())
    assert not outputs.is_behind(RUN)
    (brought / "train.log").unlink()
    outputs.finish(RUN)
    assert f"{top}/files/train.log" not in {info.key for info in objects.list(top)}


def test_what_was_brought_is_sent_only_if_it_changed(azurite: Azurite, tmp_path: Path) -> None:
    spec, one, two = blobs(azurite), tmp_path / "one", tmp_path / "two"
    for name in ("kept", "changed", "replaced"):
        write(one, name, b"of attempt 1")
    Outputs(str(one), open_objects(spec), ()).finish(RUN)
    bring(spec, two)
    objects = open_objects(spec)
    objects.put(f"{OUTPUTS}/replaced", b"of another node")
    times = {info.key: info.etag for info in objects.list(OUTPUTS)}
    write(two, "changed", b"of attempt 2")
    write(two, "new", b"of attempt 2")
    box = Outputs(str(two), objects, ("*",))
    box.upload_changes(RUN)
    assert box.finish(RUN) == []
    found = {info.key.removeprefix(f"{OUTPUTS}/"): objects.get(info.key) for info in objects.list(OUTPUTS)}
    assert found == {
        "kept": b"of attempt 1",
        "changed": b"of attempt 2",
        "replaced": b"of another node",
        "new": b"of attempt 2",
    }
    same = [info.key for info in objects.list(OUTPUTS) if times.get(info.key) == info.etag]
    assert same == [f"{OUTPUTS}/kept", f"{OUTPUTS}/replaced"]


def test_nothing_to_bring(azurite: Azurite, tmp_path: Path) -> None:
    assert "restored 0 files of the outputs, 0 bytes" in bring(blobs(azurite), tmp_path / "spool")
    assert restore.read(str(tmp_path / "spool")) == (True, {})


def test_interrupted_before_it_took_its_place(azurite: Azurite, tmp_path: Path) -> None:
    """Everything had come and was written down, and the next try must not take the empty folder for it."""
    spec, one, two = blobs(azurite), tmp_path / "one", tmp_path / "two"
    write(one, "last.ckpt", b"7")
    Outputs(str(one), open_objects(spec), ()).finish(RUN)
    bring(spec, two)
    (two / "past" / "tree").mkdir()
    (two / OUTPUTS / "last.ckpt").unlink()
    bring(spec, two)
    assert (two / OUTPUTS / "last.ckpt").read_bytes() == b"7"


@pytest.mark.slow
def test_a_store_that_refuses_is_a_failure_and_no_empty_folder(azurite: Azurite, tmp_path: Path) -> None:
    with proxied(azurite.port) as line:
        spec = blobs(azurite, azurite.one.endpoint.replace(f":{azurite.port}/", f":{line.port}/"))
        write(tmp_path / "one", "last.ckpt", b"7")
        Outputs(str(tmp_path / "one"), open_objects(spec), ()).finish(RUN)
        line.faults = lambda request: Fault("status", status=403) if "last.ckpt" in request.path else None
        words = bring(spec, tmp_path / "two")
        assert words.startswith(
            "FolderFailed the outputs of earlier attempts could not be restored from the store"
        )
        assert "`last.ckpt`" in words
        assert restore.read(str(tmp_path / "two")) is None


def test_a_store_that_is_away_is_waited_for(azurite: Azurite, tmp_path: Path) -> None:
    with proxied(azurite.port) as line:
        spec = blobs(azurite, azurite.one.endpoint.replace(f":{azurite.port}/", f":{line.port}/"))
        for number in range(40):
            write(tmp_path / "one", str(number), b"7")
        Outputs(str(tmp_path / "one"), open_objects(spec), ()).finish(RUN)
        # Which the client itself does not try again.
        line.faults = lambda request: Fault("status", status=409) if line.injected < 3 else None
        assert "restored 40 files" in bring(spec, tmp_path / "two")
        assert line.injected == 3


def test_a_request_to_stop_is_obeyed(azurite: Azurite, tmp_path: Path) -> None:
    words = bring(blobs(azurite), tmp_path / "spool", keep_on=False)
    assert words == "FolderStopped while the outputs of earlier attempts were restored\n"
    assert restore.read(str(tmp_path / "spool")) is None
