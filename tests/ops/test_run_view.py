"""`RUN:path`: the files of a run under plain names, in a folder and in an object store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from home import Home
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_record

from gofer.core import run_layout as names
from gofer.errors import KeyNotFound, StoreError
from gofer.ops.files.run_store import RunView
from gofer.storage.base import Store
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore

RUN = "r261116-091233-k9qd4x"


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = FileStore(tmp_path / "store", create=True)
    return made if request.param == "folder" else MemoryStore("view")


def test_both_places_are_one(store: Store, project: OpsProject) -> None:
    for key, data in {
        f"{names.outputs_key(RUN)}/model": b"output",
        f"{names.outputs_key(RUN)}/ck/1": b"1",
        f"{names.files_key(RUN)}/model": b"file",
        f"{names.files_key(RUN)}/ck/2": b"22",
        f"{names.files_key(RUN)}/ck.log": b"",
        f"{names.run_key(RUN)}/run.json": b"{}",
    }.items():
        store.put(key, data)
    messages: list[str] = []
    view = RunView(store, project.add(make_record(RUN)), lambda message: messages.append(str(message)))
    assert [(info.key, info.size) for info in view.list()] == [
        ("ck.log", 0), ("ck/1", 1), ("ck/2", 2), ("model", 6)
    ]  # fmt: skip
    assert messages == [
        "`model` is both an output and a file beside the code, and the output is used; "
        "`gofer extract k9qd4x DIR` brings both"
    ]
    assert [info.key for info in view.list("ck")] == ["ck/1", "ck/2"]
    assert list(view.list_folders()) == ["ck"]
    level = [one if isinstance(one, str) else one.key for one in view.list_level()]
    assert sorted(level) == ["ck", "ck.log", "model"]
    assert (view.get("model"), view.get_range("ck/2", 1, 5)) == (b"output", b"2")
    assert view.head("ck/3") is None
    with pytest.raises(KeyNotFound):
        view.get("run.json")
    with pytest.raises(StoreError, match="is not a key"):
        view.get("../run.json")
    with pytest.raises(StoreError, match="cannot be changed"):
        view.put("x", b"")


def test_the_commands(home: Home) -> None:
    """A real run: listed, printed, copied with its mode; links out of the run are not followed."""
    outside = home.root / "outside"
    outside.mkdir()
    (outside / "x").write_text("mine")
    script = (
        "cd $GOFER_OUTPUT_DIR; mkdir sub; printf 1 > sub/a; cp /bin/true 'a prog ü'; ln -s sub/a latest; "
        f"ln -s {outside}/x file; ln -s {outside} folder"
    )
    run = home.finish("sh", "-c", script)
    name = run["short_id"]
    listed = home.gofer("ls", "-r", "last:").out.splitlines()
    assert [line.split("  ")[-1] for line in listed] == [
        f"{name}:{path}" for path in ("a prog ü", "latest", "sub/a")
    ]
    assert home.gofer("ls", f"{name}:sub/").out.split()[-1] == f"{name}:sub/a"
    assert home.gofer("cat", f"{run['id']}:latest", f"{name}:sub/a").out == "11"
    assert "3 files" in home.gofer("du", f"{name}:").out
    home.gofer("cp", f"{name}:a prog ü", ".")
    assert os.access(home.folder / "a prog ü", os.X_OK)
    home.gofer("cp", "last:", "all/")
    assert (home.folder / "all").is_dir()
    for path in ("file", "folder/x"):
        assert "there is nothing at" in home.gofer("cat", f"{name}:{path}", status=None).err
    (home.folder / "new").write_text("2")
    verbs = "rm last:sub/a|rm --dry-run last:sub/a|cp new last:sub/|sync . last:|u last:sub"
    for words in verbs.split("|"):
        done = home.gofer(*words.split(), status=1)
        assert done.err == (
            f"error: the files of the run {name} cannot be changed\n"
            f"hint: copy them first: `gofer cp {name}: DIR`\n"
        )
    group = home.gofer("submit", "-Q", "--no-code", "--wait", "--each", "x=1,2", "true", "{x}").out.strip()
    done = home.gofer("ls", f"{group}:", status=None)
    assert done.status == 2 and "-0:`" in done.err


def test_a_stores_name_wins_over_a_runs(home: Home) -> None:
    run = home.finish("sh", "-c", "echo 1 > $GOFER_OUTPUT_DIR/of-the-run")
    name = run["short_id"]
    shelf = home.root / "shelf"
    shelf.mkdir()
    (shelf / "of-the-store").write_text("1")
    home.configure(f"stores:\n  {name}: {{url: '{shelf.as_uri()}'}}\n")
    done = home.gofer("ls", f"{name}:")
    assert "of-the-store" in done.out
    assert f"`{name}:` means the store of that name; a run has the id `{name}` too" in done.err
    assert "of-the-run" in home.gofer("ls", f"{run['id']}:").out
