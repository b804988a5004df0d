"""A folder made ready, once and without harm."""

from __future__ import annotations

import os
import re

import pytest
from unit.ops.project import OpsProject

from gofer.errors import StoreError
from gofer.ops.session import Session
from gofer.ops.settings.init import TEMPLATE, init


def test_a_new_folder(project: OpsProject) -> None:
    (project.folder / "train.py").write_text("print(1)\n")
    (project.folder / ".gitignore").write_text("data/\n*.tmp\n")
    (project.folder / "data").mkdir()
    (project.folder / "data" / "big.bin").write_bytes(b"x" * 1000)
    (project.folder / "a.tmp").write_text("scrap")
    done = init(project.session)
    assert done.written == project.folder / "gofer.yaml"
    assert done.written.read_text() == TEMPLATE
    assert (done.files, done.sent_files) == (3, 3)
    assert done.left_out == ("a.tmp", "data/")
    assert done.biggest == ()
    text = str(done)
    assert "edit it to change settings" in text
    assert "left out by the ignore rules: a.tmp, data/" in text
    assert "`gofer submit COMMAND`" in text


def test_the_second_time_nothing_is_sent_and_nothing_overwritten(project: OpsProject) -> None:
    (project.folder / "train.py").write_text("print(1)\n")
    init(project.session)
    (project.folder / "gofer.yaml").write_text("job: {gpus: 0}\n")
    with project.open() as again:
        init(again)
        done = init(again)
    assert (done.written, done.sent_files, done.sent_bytes) == (None, 0, 0)
    assert (project.folder / "gofer.yaml").read_text() == "job: {gpus: 0}\n"


def test_in_a_folder_below_the_project_the_project_is_meant(project: OpsProject) -> None:
    (project.folder / "gofer.yaml").write_text("")
    below = project.folder / "src"
    below.mkdir()
    (below / "a.py").write_text("")
    with Session(folder=below, environ=project.environ, emit=project.note) as session:
        done = init(session)
    assert (done.folder, done.written) == (project.folder, None)
    assert os.listdir(below) == ["a.py"]


def test_settings_of_another_tool_are_left_to_stand(project: OpsProject) -> None:
    (project.folder / "aux_data" / "aml").mkdir(parents=True)
    (project.folder / "aux_data" / "aml" / "aml.yaml").write_text("gpu_per_node: 4\n")
    assert init(project.session).written is None
    assert not (project.folder / "gofer.yaml").exists()


def test_code_that_cannot_be_sent_leaves_no_file(project: OpsProject) -> None:
    (project.root / "gofer").mkdir()
    (project.root / "gofer" / "config.yaml").write_text(
        "stores: {default: {url: 'file:///nowhere/at/all'}}\n"
    )
    (project.folder / "train.py").write_text("")
    with pytest.raises(StoreError, match="is not there"):
        init(project.session)
    assert os.listdir(project.folder) == ["train.py"]


def test_the_template_is_valid_as_it_is_and_with_every_line_in_use(project: OpsProject) -> None:
    path = project.folder / "gofer.yaml"
    path.write_text(TEMPLATE)
    with project.open() as session:
        assert session.settings.project_file == path
        assert session.settings.ignore == ()
    path.write_text(re.sub(r"^#(?! \S)", "", TEMPLATE, flags=re.MULTILINE))
    with project.open() as session:
        assert session.settings.ignore == ("*.ckpt", "/data/")
        assert session.settings.target().name == "local"
        assert session.settings.job_layers("local")


def test_a_second_target_gets_the_code(project: OpsProject) -> None:
    shared = project.root / "shared"
    shared.mkdir()
    (project.folder / "gofer.yaml").write_text(
        f"stores: {{far: {{url: '{shared.as_uri()}'}}}}\ntargets: {{other: {{kind: local, store: far}}}}\n"
    )
    with Session(
        folder=project.folder,
        environ=project.environ,
        target="other",
        emit=project.note,
    ) as session:
        assert init(session).store == shared.as_uri()
    assert (shared / "snapshots").is_dir()
