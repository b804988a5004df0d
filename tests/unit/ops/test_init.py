"""A folder made ready, once and without harm."""

from __future__ import annotations

import os
import re

import pytest
from unit.ops.desk import Desk

from gofer.errors import StoreError
from gofer.ops.session import Session
from gofer.ops.settings.init import TEMPLATE, init


def test_a_new_folder(desk: Desk) -> None:
    (desk.project / "train.py").write_text("print(1)\n")
    (desk.project / ".gitignore").write_text("data/\n*.tmp\n")
    (desk.project / "data").mkdir()
    (desk.project / "data" / "big.bin").write_bytes(b"x" * 1000)
    (desk.project / "a.tmp").write_text("scrap")
    done = init(desk.session)
    assert done.written == desk.project / "gofer.yaml"
    assert done.written.read_text() == TEMPLATE
    assert (done.files, done.sent_files) == (3, 3)
    assert done.left_out == ("a.tmp", "data/")
    assert done.biggest == ()
    text = str(done)
    assert "gofer.yaml is yours to fill in" in text
    assert "left out by the ignore rules: a.tmp, data/" in text
    assert "`gofer submit COMMAND`" in text


def test_the_second_time_nothing_is_sent_and_nothing_overwritten(desk: Desk) -> None:
    (desk.project / "train.py").write_text("print(1)\n")
    init(desk.session)
    (desk.project / "gofer.yaml").write_text("job: {gpus: 0}\n")
    with desk.open() as again:
        init(again)
        done = init(again)
    assert (done.written, done.sent_files, done.sent_bytes) == (None, 0, 0)
    assert (desk.project / "gofer.yaml").read_text() == "job: {gpus: 0}\n"


def test_in_a_folder_below_the_project_the_project_is_meant(desk: Desk) -> None:
    (desk.project / "gofer.yaml").write_text("")
    below = desk.project / "src"
    below.mkdir()
    (below / "a.py").write_text("")
    with Session(folder=below, environ=desk.environ, say=desk.said.append) as session:
        done = init(session)
    assert (done.folder, done.written) == (desk.project, None)
    assert os.listdir(below) == ["a.py"]


def test_settings_of_another_tool_are_left_to_stand(desk: Desk) -> None:
    (desk.project / "aux_data" / "aml").mkdir(parents=True)
    (desk.project / "aux_data" / "aml" / "aml.yaml").write_text("gpu_per_node: 4\n")
    assert init(desk.session).written is None
    assert not (desk.project / "gofer.yaml").exists()


def test_code_that_cannot_be_sent_leaves_no_file(desk: Desk) -> None:
    (desk.root / "gofer").mkdir()
    (desk.root / "gofer" / "config.yaml").write_text("stores: {default: {url: 'file:///nowhere/at/all'}}\n")
    (desk.project / "train.py").write_text("")
    with pytest.raises(StoreError, match="is not there"):
        init(desk.session)
    assert os.listdir(desk.project) == ["train.py"]


def test_the_template_is_valid_as_it_is_and_with_every_line_in_use(desk: Desk) -> None:
    path = desk.project / "gofer.yaml"
    path.write_text(TEMPLATE)
    with desk.open() as session:
        assert session.settings.project_file == path
        assert session.settings.ignore == ()
    path.write_text(re.sub(r"^#(?! \S)", "", TEMPLATE, flags=re.MULTILINE))
    with desk.open() as session:
        assert session.settings.ignore == ("*.ckpt", "/data/")
        assert session.settings.target().name == "local"
        assert session.settings.job_layers("local")


def test_a_second_target_gets_the_code(desk: Desk) -> None:
    shared = desk.root / "shared"
    shared.mkdir()
    (desk.project / "gofer.yaml").write_text(
        f"stores: {{far: {{url: '{shared.as_uri()}'}}}}\ntargets: {{other: {{kind: local, store: far}}}}\n"
    )
    with Session(folder=desk.project, environ=desk.environ, target="other", say=desk.said.append) as session:
        assert init(session).store == shared.as_uri()
    assert (shared / "snapshots").is_dir()
