"""What a run left, as `q`, `--json` and the last line of `-f` show it."""

from __future__ import annotations

from home import Home
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_record

from gofer.cli.output.describe import describe
from gofer.core import run_layout as names
from gofer.node.kept.records import KeptFiles
from gofer.ops.files.results import CameHome, NodeCopy, came_home
from gofer.ops.runs.query import facts
from gofer.ops.runs.run_folder import RunFolder
from gofer.ops.runs.view import run_json
from gofer.storage.base import OnDisk

RUN = "r261116-091233-k9qd4x"


def test_files_what_was_left_out_and_what_stayed(project: OpsProject) -> None:
    row = project.add(make_record(RUN, nodes=2), state="succeeded")
    folder = project.run_folder(RUN)
    for name in ("ck/1", "ck/2", "a", "b", "c", "d"):
        folder.output(name, b"x" * 512)
    folder.store.put(f"{names.files_key(RUN)}/runs/\x1b[31m", b"x")
    left = tuple((f"key{number}.pem", "looks like a secret") for number in range(7))
    folder.exit("succeeded", kept=KeptFiles(1, 1, 0, left, 30).encode())
    folder.exit("succeeded", node=1, kept=KeptFiles(copy="/scratch/kept/x").encode())
    found = came_home(RunFolder(project.store, row.id), row)
    assert str(found.outputs) == "6 files, 3.0 KiB: a, b, c, ck/…, …"
    assert (found.files.files, found.files.names) == (1, ("runs/",))
    assert found.short("k9qd4x") == (
        "7 files, 3.0 KiB: `gofer extract k9qd4x DIR`; more than `keep` allows stays on node 1 in "
        "/scratch/kept/x"
    )
    assert CameHome(copies=(NodeCopy(0, "/kept/x", 1),)).short("k9qd4x") == (
        "more than `keep` allows stays on node 0 in /kept/x: `gofer extract k9qd4x DIR`"
    )
    full = (("big", "No space left on device"), ("key.pem", "looks like a secret"))
    assert CameHome(copies=(NodeCopy(0, "/kept/x", 1, has_failed=True),)).short("k9qd4x") == (
        "what could not be kept stays on node 0 in /kept/x: `gofer extract k9qd4x DIR`"
    )
    assert CameHome(left_out=full).short("k9qd4x") == "could not be kept: big (No space left on device)"
    text = describe(facts(project.session, row), now=0.0)
    for line in (
        "outputs    6 files, 3.0 KiB: a, b, c, ck/…, …",
        "files      1 file, 1 B: runs/…",
        "stays      more than `keep` allows, on node 1: /scratch/kept/x",
        "left out   key0.pem (looks like a secret)",
        "           25 more",
        "fetch      gofer extract k9qd4x DIR",
    ):
        assert line in text.splitlines(), text
    document = run_json(project.session, row)["came_home"]
    assert document["outputs"] == {"files": 6, "bytes": 3072, "is_all": True}
    assert document["copies"] == [{"node": 1, "path": "/scratch/kept/x"}]
    assert (len(document["left_out"]), document["left_out_count"]) == (7, 30)


def test_a_link_counts_without_the_file_it_leads_to(project: OpsProject) -> None:
    row = project.add(make_record(RUN), state="succeeded")
    project.run_folder(RUN).output("big", b"x" * 1024)
    assert isinstance(project.store, OnDisk)
    project.store.path(f"{names.outputs_key(RUN)}/latest").symlink_to("big")
    assert str(came_home(RunFolder(project.store, row.id), row).outputs) == "2 files, 1.0 KiB: big, latest"


def test_a_record_that_is_not_in_order_costs_nothing(project: OpsProject) -> None:
    row = project.add(make_record(RUN), state="succeeded")
    project.run_folder(RUN).exit("succeeded", kept={"files": "many"})
    assert came_home(RunFolder(project.store, row.id), row) == CameHome()
    assert "fetch" not in describe(facts(project.session, row), now=0.0)
    assert run_json(project.session, row, from_store=False)["came_home"] is None


def test_the_last_line_names_it(home: Home) -> None:
    done = home.gofer("submit", "--no-code", "--wait", "sh", "-c", "echo 1 > $GOFER_OUTPUT_DIR/x")
    name = home.view("last")["short_id"]
    assert done.err.splitlines()[-1] == f"{name} succeeded; 1 file, 2 B: `gofer extract {name} DIR`"
    assert home.gofer("submit", "--no-code", "--wait", "true").err.splitlines()[-1].endswith(" succeeded")
