"""Restoring: byte for byte, whole or not at all, and never outside its folder whatever the manifest says."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from snapshot.forge import Forge, Rows, sha
from snapshot.project import SnapshotProject, describe

from gofer.core.code.packs import CHUNK_BYTES
from gofer.node.code.checkout import CheckoutError, restore

DATA = b"content"
FILE = ["f", len(DATA), sha(DATA)]


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path / "store")


def encoded(name: bytes) -> str:
    return "\0" + base64.b64encode(name).decode()


def test_a_forged_snapshot_that_is_honest_is_restored(forge: Forge, tmp_path: Path) -> None:
    """The tests below fail for their own reason, not because forging does not work."""
    one = forge.snapshot({"": [["a", *FILE], ["l", "l", "a"]], "sub": [["x", "x", 0]], "sub/deep": []}, DATA)
    assert restore(forge.root, one, tmp_path / "out").files == 3
    assert describe(tmp_path / "out") == {
        b"a": ("file", DATA),
        b"l": ("link", b"a"),
        b"sub": ("folder", b""),
        b"sub/x": ("program", b""),
        b"sub/deep": ("folder", b""),
    }


HOSTILE: dict[str, dict[str, Any]] = {
    "up": {"": [["..", *FILE]]},
    "here": {"": [[".", *FILE]]},
    "no name": {"": [["", *FILE]]},
    "a path": {"": [["a/b", *FILE]]},
    "up and away": {"": [["../evil", *FILE]]},
    "absolute": {"": [["/tmp/evil", *FILE]]},
    "a hidden slash": {"": [[encoded(b"../evil"), *FILE]]},
    "a hidden NUL": {"": [[encoded(b"a\0b"), *FILE]]},
    "a plain NUL": {"": [["a\0b", *FILE]]},
    "half a letter": {"": [["\ud800", *FILE]]},
    "not base64": {"": [["\0***", *FILE]]},
    "no string": {"": [[7, *FILE]]},
    "folder up": {"": [], "..": [["evil", *FILE]]},
    "folder absolute": {"": [], "/tmp": [["evil", *FILE]]},
    "folder through up": {"": [], "a": [], "a/../..": [["evil", *FILE]]},
    "folder with an empty part": {"": [], "a": [], "a//b": [["evil", *FILE]]},
    "folder with an end": {"": [], "a": [], "a/": [["evil", *FILE]]},
    "folder without its parent": {"": [], "a/b": [["evil", *FILE]]},
    "no top": {"a": [["evil", *FILE]]},
    "through a link": {"": [["a", "l", "/tmp"]], "a": [["evil", *FILE]]},
    "through a deep link": {"": [], "a": [["b", "l", "../.."]], "a/b": [["evil", *FILE]]},
    "a link and a file": {"": [["a", "l", "/tmp/evil"], ["a", *FILE]]},
    "a file and a link": {"": [["a", *FILE], ["a", "l", "/tmp/evil"]]},
    "a file and a folder": {"": [["a", *FILE]], "a": []},
    "one name in two spellings": {"": [["a", *FILE], [encoded(b"a"), *FILE]]},
    "out of order": {"": [["b", *FILE], ["a", *FILE]]},
    "folders out of order": {"": [], "b": [], "a": []},
    "a device": {"": [["a", "b", 0]]},
    "a link without a target": {"": [["a", "l", ""]]},
    "a link to a NUL": {"": [["a", "l", "x\0y"]]},
    "a negative size": {"": [["a", "f", -1]]},
    "a size that is a truth": {"": [["a", "f", True, sha(DATA)]]},
    "a size that is a fraction": {"": [["a", "f", 1.0, sha(DATA)]]},
    "a size without content": {"": [["a", "f", 10**15]]},
    "content without a size": {"": [["a", "f", 0, sha(DATA)]]},
    "a wrong size": {"": [["a", "f", len(DATA) + 1, sha(DATA)]]},
    "too many pieces": {"": [["a", "f", len(DATA), sha(DATA), sha(DATA)]]},
    "a short piece in the middle": {"": [["a", "f", CHUNK_BYTES + 7, sha(DATA), sha(DATA)]]},
    "no such content": {"": [["a", "f", 5, "0" * 64]]},
    "a hash that is a path": {"": [["a", "f", 5, "../../../etc/passwd"]]},
    "no row": {"": ["a"]},
    "an empty row": {"": [[]]},
    "no listing": {"": {"a": 1}},
}


@pytest.mark.parametrize("trick", HOSTILE)
def test_a_hostile_manifest_is_refused(forge: Forge, tmp_path: Path, trick: str) -> None:
    snapshot = forge.snapshot(HOSTILE[trick], DATA)
    place = tmp_path / "deep" / "down"
    place.mkdir(parents=True)
    before = describe(tmp_path)
    with pytest.raises(CheckoutError):
        restore(forge.root, snapshot, place / "out")
    assert describe(tmp_path) == before
    assert not os.path.lexists("/tmp/evil")


def test_damage_on_the_way_is_found(forge: Forge, tmp_path: Path) -> None:
    """Whatever byte of whatever object is changed, nothing is restored."""
    snapshot = forge.snapshot({"": [["a", *FILE]], "sub": [["b", *FILE]]}, DATA)
    before = describe(tmp_path)
    for path in [path for path in forge.root.rglob("*") if path.is_file()]:
        good = path.read_bytes()
        for ruined in (b"", good[:-1], b"x" + good[1:], good + b"x", b"[" * 100_000):
            if ruined == good + b"x" and path.suffix == "" and path.parent.name == "packs":
                continue  # bytes that no index names are nobody's business
            path.write_bytes(ruined)
            with pytest.raises(CheckoutError):
                restore(forge.root, snapshot, tmp_path / "out")
        path.unlink()
        with pytest.raises(CheckoutError):
            restore(forge.root, snapshot, tmp_path / "out")
        path.write_bytes(good)
    assert describe(tmp_path) == before


@pytest.mark.parametrize(
    "index",
    [
        [[sha(DATA), 1, len(DATA)]],
        [[sha(DATA), -1, len(DATA)]],
        [[sha(DATA), 0, 10**12]],
        [[sha(DATA), 0, len(DATA) - 1]],
        [[sha(DATA), 0]],
        [[sha(DATA), "0", len(DATA)]],
        [["x", 0, len(DATA)]],
        {"a": 1},
        7,
    ],
)
def test_an_index_that_lies_is_refused(forge: Forge, tmp_path: Path, index: Rows) -> None:
    pack = forge.pack(DATA, index=index)
    snapshot = forge.snapshot({"": [["a", *FILE]]}, packs=[pack])
    with pytest.raises(CheckoutError):
        restore(forge.root, snapshot, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"format": "x"}, {"folders": 3}, {"packs": None}, {"packs": ["../x"]}]
)
def test_a_manifest_of_another_kind_is_refused(forge: Forge, tmp_path: Path, change: dict[str, Any]) -> None:
    snapshot = forge.snapshot({"": [["a", *FILE]]}, DATA, change=change)
    with pytest.raises(CheckoutError):
        restore(forge.root, snapshot, tmp_path / "out")


@pytest.mark.parametrize("snapshot", ["", "x", "../../etc/passwd", "0" * 63, "0" * 64, "A" * 64])
def test_an_id_that_is_none(forge: Forge, tmp_path: Path, snapshot: str) -> None:
    with pytest.raises(CheckoutError):
        restore(forge.root, snapshot, tmp_path / "out")


def test_a_manifest_under_another_id_is_refused(forge: Forge, tmp_path: Path) -> None:
    one = forge.snapshot({"": [["a", *FILE]]}, DATA)
    two = forge.snapshot({"": [["b", *FILE]]}, DATA)
    os.replace(forge.root / "snapshots" / one, forge.root / "snapshots" / two)
    with pytest.raises(CheckoutError, match="does not fit its id"):
        restore(forge.root, two, tmp_path / "out")


def test_a_second_restore_finds_the_first(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    snapshot = project.take().id
    folder = project.root / "code"
    assert restore(project.store.root, snapshot, folder).reused is False
    (folder / "made by a run").write_text("x")
    assert restore(project.store.root, snapshot, folder).reused is True
    assert (project.root / "code.snapshot").read_text().strip() == snapshot
    assert (folder / "made by a run").exists()


def test_a_folder_that_holds_something_else_is_left_alone(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    first = project.take().id
    project.write({"a": "2"})
    second = project.take().id
    mine = project.root / "mine"
    mine.mkdir()
    (mine / "precious").write_text("x")
    for snapshot, folder in ((first, mine), (second, project.restore(first)), (first, mine / "precious")):
        with pytest.raises(CheckoutError):
            restore(project.store.root, snapshot, folder)
    assert (mine / "precious").read_text() == "x"


def test_an_empty_folder_is_filled_and_parents_are_made(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    snapshot = project.take().id
    (project.root / "empty").mkdir()
    for folder in (project.root / "empty", project.root / "not" / "yet" / "there"):
        restore(project.store.root, snapshot, folder)
        assert describe(folder) == describe(project.folder)


def test_modes_follow_the_umask(project: SnapshotProject) -> None:
    project.write({"a": "1", "b": "2"})
    (project.folder / "b").chmod(0o700)
    snapshot = project.take().id
    before = os.umask(0o027)
    try:
        folder = project.restore(snapshot)
    finally:
        os.umask(before)
    assert [(folder / name).stat().st_mode & 0o777 for name in "ab"] == [0o640, 0o750]


RESTORE = """
import sys
from gofer.node.code.checkout import restore
print("ready", flush=True)
print(restore(*sys.argv[1:]).reused)
"""


def start_restore(project: SnapshotProject, snapshot: str, folder: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", RESTORE, str(project.store.root), snapshot, str(folder)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


def test_several_at_once_share_one_folder(project: SnapshotProject) -> None:
    project.write({f"d{i % 7}/f{i}": os.urandom(2000) for i in range(300)})
    snapshot = project.take().id
    folder = project.root / "code"
    runs = [start_restore(project, snapshot, folder) for _ in range(4)]
    output = [run.communicate(timeout=60)[0].split() for run in runs]
    assert ["ready", "False"] in output and all(words[1] in ("False", "True") for words in output)
    assert describe(folder) == describe(project.folder)
    assert sorted(path.name for path in project.root.glob("code*")) == ["code", "code.snapshot"]


def test_killed_at_any_moment_the_folder_is_whole_or_absent(project: SnapshotProject) -> None:
    project.write({f"d{i % 7}/f{i}": os.urandom(20_000) for i in range(500)})
    snapshot = project.take().id
    began = time.perf_counter()
    restore(project.store.root, snapshot, project.root / "first")
    lasts_s = time.perf_counter() - began
    killed = 0
    for number in range(10):
        folder = project.root / f"code-{number}"
        one = start_restore(project, snapshot, folder)
        assert one.stdout and one.stdout.readline() == "ready\n"
        time.sleep(lasts_s * 0.1 * number)
        one.send_signal(signal.SIGKILL)
        one.communicate(timeout=60)
        killed += one.returncode == -signal.SIGKILL
        if folder.exists():
            assert describe(folder) == describe(project.folder)
        restore(project.store.root, snapshot, folder)
        assert describe(folder) == describe(project.folder)
    assert killed


def test_what_a_killed_restore_left_long_ago_is_removed(project: SnapshotProject) -> None:
    project.write({"a": "1"})
    snapshot = project.take().id
    for name in ("code.part-1-dead", "code.part-2-live"):
        (project.root / name / "sub").mkdir(parents=True)
    (project.root / "code.part-1-dead.mark").write_text("")
    for name in ("code.part-1-dead", "code.part-1-dead.mark"):
        os.utime(project.root / name, (1, 1))
    restore(project.store.root, snapshot, project.root / "code")
    assert sorted(path.name for path in project.root.glob("code*")) == [
        "code",
        "code.part-2-live",
        "code.snapshot",
    ]


def test_a_full_disk_leaves_nothing(project: SnapshotProject) -> None:
    project.write({"a": os.urandom(300_000)})
    snapshot = project.take().id
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
    argv = [
        sys.executable,
        "-c",
        limit + RESTORE,
        str(project.store.root),
        snapshot,
        str(project.root / "code"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert "CheckoutError" in done.stderr and "File too large" in done.stderr
    assert list(project.root.glob("code*")) == []


def test_the_manifest_is_plain_json_that_others_can_read(project: SnapshotProject) -> None:
    project.write({"a": "1", "sub/b": "22"})
    taken = project.take()
    top = json.loads(project.store.get(f"snapshots/{taken.id}"))
    assert (top["format"], top["version"], top["files"], top["bytes"]) == ("gofer-snapshot", 1, 2, 3)
    assert [path for path, _ in top["folders"]] == ["", "sub"]
