"""`extract` fetches what is new in a working copy that stayed on its node."""

from __future__ import annotations

import os
from pathlib import Path

from unit.ops.project import ELSEWHERE, OpsProject
from unit.ops.run_folders import make_record
from unit.ops.test_extract import RUN, tree, write_code

from gofer.core.run_layout import node_key
from gofer.node.kept.records import COPY, KeptFiles, describe, encode_list
from gofer.ops.files.extract import extract
from gofer.snapshot.contents import restore


def test_what_is_new_comes_and_the_code_stays(project: OpsProject, tmp_path: Path) -> None:
    snapshot = write_code(project)
    row = project.add(
        make_record(RUN, nodes=2, snapshot=snapshot), submitter=f"1:1:boot@{project.session.queue_id}"
    )
    copies = [tmp_path / "kept" / str(node) for node in (0, 1)]
    for copy in copies:
        restore(project.store, snapshot, copy)
        (copy / "train.py").write_text("print('ho')\n")  # as long as it was
        (copy / "out ü").mkdir()
        (copy / "out ü" / "model").write_bytes(b"weights of " + os.fsencode(copy.name))
        (copy / "latest").symlink_to("out ü/model")
        (copy / "key.pem").write_text("secret")
        (copy / "__pycache__").mkdir()
        (copy / "__pycache__" / "x.pyc").write_bytes(b"")
    for node, copy in enumerate(copies):
        listed = [
            describe(COPY, path, os.lstat(copy / path), "out ü/model" if path == "latest" else None)
            for path in ("train.py", "out ü/model", "latest")
        ]
        project.store.put(f"{node_key(RUN, 1, node)}/files.jsonl", encode_list(listed))
        project.run_folder(RUN).exit("succeeded", node=node, kept=KeptFiles(copy=str(copy)).encode())
    out = tmp_path / "out"
    found = extract(project.session, row, out)
    assert (found.kept_files, found.failed) == (6, ())
    new: dict[str, bytes | str] = {
        "train.py": b"print('ho')\n", "out ü/model": b"weights of 0", "latest": "out ü/model"
    }  # fmt: skip
    second = {f"node-1/{path}": value for path, value in new.items()}
    second["node-1/out ü/model"] = b"weights of 1"
    assert tree(out / "files") == {**new, **second}


def test_a_copy_that_was_removed_is_named(project: OpsProject, tmp_path: Path) -> None:
    gone = str(tmp_path / "kept" / "gone")
    for name, submitter, why in (
        (RUN, ELSEWHERE, "it is on the machine that submitted the run"),
        (
            "r261116-091234-k9qd4y",
            f"1:1:boot@{project.session.queue_id}",
            "it was removed, by hand or by `gofer prune`, which does so after 14 days",
        ),
    ):
        row = project.add(make_record(name), submitter=submitter)
        project.run_folder(name).exit("succeeded", kept=KeptFiles(copy=gone).encode())
        ((path, words),) = extract(project.session, row, tmp_path / name).failed
        assert path == "files"
        assert words == f"the working copy of node 0 in {gone} cannot be fetched: {why}"
