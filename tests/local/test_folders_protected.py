"""`mode: copy`: what a run writes in a copied folder never reaches another run, under any user."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from local.folder_home import FolderHome

BIG = 2 << 20


def home_of(root: Path, prefix: tuple[str, ...], *, read_only: bool) -> FolderHome:
    store = root / "blobs"
    store.mkdir(parents=True)
    made = FolderHome(root, {"url": store.as_uri()})
    made.prefix = prefix
    more = ", read_only: true" if read_only else ""
    made.configure(
        f"stores: {{blob: {{url: '{store.as_uri()}'}}}}\n"
        f"folders: {{data: {{store: blob, path: me/data, mode: copy{more}}}}}\n"
    )
    made.put({"x": b"v1\n", "deep/y": b"v1\n", "big": b"b" * BIG})
    return made


@pytest.fixture(params=["root", "root without mounts", "user"])
def prefix(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """How the commands are run: with all rights, as root in a container has them, as anybody."""
    lost = {
        "root": (),
        "root without mounts": ("-sys_admin",),
        "user": ("-sys_admin", "-dac_override", "-dac_read_search"),
    }[request.param]
    return ("setpriv", f"--bounding-set={','.join(lost)}", f"--inh-caps={','.join(lost)}") if lost else ()


@pytest.fixture
def open_path(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users reach too."""
    made = Path("/tmp") / f"gofer-shared-{os.getpid()}-{tmp_path.name[-20:]}"
    made.mkdir(mode=0o777)
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


POISON = (
    "echo POISON >> data/x; rm -f data/deep/y; echo new > data/new; printf c | dd of=data/big conv=notrunc"
)


@pytest.fixture(params=[True, False], ids=["read-only", "plain"])
def home(request: pytest.FixtureRequest, open_path: Path, prefix: tuple[str, ...]) -> Iterator[FolderHome]:
    made = home_of(open_path / "a b", prefix, read_only=request.param)
    yield made
    made.close()


@pytest.mark.root
def test_a_write_reaches_no_other_run(home: FolderHome) -> None:
    """Neither one that is under way nor one that comes later."""
    read_only = "read_only" in (home.folder / "gofer.yaml").read_text()
    show = "cat data/x data/deep/y; ls data; head -c 1 data/big; echo"
    gate = home.folder / "gate"
    wait = f"until [ -e '{gate}' ]; do sleep 0.05; done"
    reader = home.begin("sh", "-c", f"{show}; {wait}; {show}")
    home.until_logged(reader, "\nb\n")
    writer = home.run("sh", "-c", f"{POISON}; {show}; true")
    gate.touch()
    (read,) = home.wait(reader)
    good = "v1\nv1\nbig\ndeep\nx\nb\n"
    later = home.run("sh", "-c", show)
    can_mount = home.prefix == ()
    is_root = "dac_override" not in str(home.prefix)
    if can_mount or not is_root:
        assert home.log(reader) == good * 2
    assert home.log(later["id"]) == good
    if read_only and (can_mount or not is_root):
        assert home.log(writer["id"]).endswith(good) and "POISON" not in home.log(later["id"])
        assert "Read-only file system" in home.log(writer["id"]) or "ermission denied" in home.log(
            writer["id"]
        )
    if read_only and is_root and not can_mount:
        assert "`x`" in later["detail"] and "`new`" in later["detail"] and writer["id"] in later["detail"]
    if not read_only and can_mount:
        assert "v1\nPOISON\n" in home.log(writer["id"])
        assert home.log(writer["id"]).endswith("big\ndeep\nnew\nx\nc\n")
    assert (read["state"], writer["state"]) == ("succeeded", "succeeded")
    (about,) = home.queue_home.glob("folders/*/about.json")
    os.utime(about, (1, 1))
    home.gofer("prune", "--yes")
    assert not list(home.queue_home.glob("folders/*")), "a copy could not be removed"


@pytest.mark.root
@pytest.mark.parametrize("home", [False], indirect=True, ids=["plain"])
def test_rows_of_an_array_have_views_of_their_own(home: FolderHome) -> None:
    """One agent makes several rows in one working copy, and each row begins with the folder of the store."""
    group = home.begin("--each", "i=1..3", "sh", "-c", "echo {i} >> data/x; cat data/x")
    home.wait(group)
    for row in range(3):
        output = home.log(f"{group}-{row}").splitlines()
        assert "v1" in output and not {"1", "2", "3"} - {str(row + 1)} & set(output), output
