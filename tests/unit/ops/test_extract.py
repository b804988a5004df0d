"""Code, logs and outputs of a run in one folder, byte for byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_group, make_record

from gofer.errors import SnapshotError, UsageError
from gofer.ops.files.extract import Extracted, extract
from gofer.snapshot.capture import take_snapshot

RUN = "r261116-091233-k9qd4x"


def tree(folder: Path) -> dict[str, bytes | str]:
    """Every file and link below a folder, by path."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def write_code(project: OpsProject) -> str:
    (project.folder / "train.py").write_text("print('hi')\n")
    (project.folder / "run me.sh").write_text("#!/bin/sh\n")
    (project.folder / "run me.sh").chmod(0o755)
    (project.folder / "lib").mkdir()
    (project.folder / "lib" / "latest").symlink_to("../train.py")
    return take_snapshot(project.folder, project.store, cache_dir=project.session.paths.cache_dir).id


def test_a_run(project: OpsProject, tmp_path: Path) -> None:
    row = project.add(make_record(RUN, snapshot=write_code(project)))
    folder = project.run_folder(RUN)
    folder.log(b"line\n")
    folder.exit("succeeded")
    folder.heartbeat(1.0, [])
    folder.output("model.json", b"{}")
    folder.output("deep/er/metrics.log", b"mine\n")
    out = tmp_path / "out"
    assert extract(project.session, row, out) == Extracted(3, 2, 2)
    assert tree(out / "code") == tree(project.folder)
    assert os.access(out / "code" / "run me.sh", os.X_OK)
    assert tree(out / "outputs") == {"model.json": b"{}", "deep/er/metrics.log": b"mine\n"}
    assert set(tree(out / "logs")) == {"1/node-0/rank-0.log", "1/node-0/exit.json"}
    assert json.loads((out / "run.json").read_bytes())["id"] == RUN
    assert sorted(os.listdir(out)) == ["code", "logs", "outputs", "run.json"]


def test_a_folder_in_use_is_refused_and_left_alone(project: OpsProject, tmp_path: Path) -> None:
    row = project.add(make_record(RUN))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not an empty folder"):
        extract(project.session, row, tmp_path / "out")
    assert tree(tmp_path / "out") == {"mine.txt": b"mine"}
    with pytest.raises(UsageError, match="not an empty folder"):
        extract(project.session, row, tmp_path / "out" / "mine.txt", force=True)


def test_force_brings_up_to_date(project: OpsProject, tmp_path: Path) -> None:
    row = project.add(make_record(RUN, snapshot=write_code(project)))
    log = project.run_folder(RUN).log(b"x" * 50_000)
    project.run_folder(RUN).output("model", b"first")
    extract(project.session, row, tmp_path / "out")
    (tmp_path / "out" / "mine.txt").write_text("mine")
    project.run_folder(RUN).log(b"more\n")
    project.run_folder(RUN).output("model", b"later")
    project.run_folder(RUN).output("late.txt", b"late")
    with pytest.raises(UsageError, match="holds the run") as caught:
        extract(project.session, row, tmp_path / "out")
    assert caught.value.hint == "add `--force` to bring it up to date"
    assert extract(project.session, row, tmp_path / "out", force=True) == Extracted(3, 1, 2)
    assert (tmp_path / "out" / "logs/1/node-0/rank-0.log").read_bytes() == project.store.get(log)
    assert (tmp_path / "out" / "outputs/model").read_bytes() == b"later"
    assert (tmp_path / "out" / "outputs/late.txt").read_bytes() == b"late"
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_two_runs_never_share_a_folder(project: OpsProject, tmp_path: Path) -> None:
    other = "r261116-101500-bbbbbb"
    extract(project.session, project.add(make_record(RUN)), tmp_path / "out")
    with pytest.raises(UsageError, match=f"holds the run {RUN}"):
        extract(project.session, project.add(make_record(other)), tmp_path / "out", force=True)


def test_a_group_has_its_code_once_and_a_folder_for_each_row_that_started(
    project: OpsProject, tmp_path: Path
) -> None:
    group = project.add(make_group(RUN, 5, snapshot=write_code(project)))
    for index in (1, 4):
        folder = project.run_folder(f"{RUN}-{index}")
        folder.log(b"row %d\n" % index)
        folder.output("result", b"%d" % index)
    out = tmp_path / "out"
    assert extract(project.session, group, out) == Extracted(3, 2, 2)
    assert sorted(os.listdir(out)) == ["1", "4", "code", "run.json"]
    assert tree(out / "4") == {"logs/1/node-0/rank-0.log": b"row 4\n", "outputs/result": b"4"}


def test_a_row_of_a_group(project: OpsProject, tmp_path: Path) -> None:
    project.add(make_group(RUN, 2, snapshot=write_code(project)))
    project.run_folder(f"{RUN}-1").output("result", b"1")
    assert extract(project.session, project.get(f"{RUN}-1"), tmp_path / "out") == Extracted(3, 0, 1)
    assert (tmp_path / "out" / "code" / "train.py").exists()
    with pytest.raises(UsageError, match="holds the run"):
        extract(project.session, project.get(f"{RUN}-0"), tmp_path / "out", force=True)


def test_a_snapshot_that_is_gone(project: OpsProject, tmp_path: Path) -> None:
    row = project.add(make_record(RUN, snapshot="ab" * 32))
    with pytest.raises(SnapshotError):
        extract(project.session, row, tmp_path / "out")
    assert not (tmp_path / "out" / "code").exists()
