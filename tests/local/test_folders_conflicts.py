"""`mode: upload` over files that others wrote: never in silence, and nothing that came meanwhile is lost."""

from __future__ import annotations

import pytest
from local.folder_fixtures import home as home
from local.folder_home import FolderHome
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("folders")]


def test_a_file_that_was_there_before_is_replaced_and_named(home: FolderHome) -> None:
    home.map(out="upload")
    home.put({"metrics.csv": b"epoch1\n", "same.txt": b"same\n"}, folder="out")
    done = home.run("sh", "-c", "echo epoch2 > out/metrics.csv; echo same > out/same.txt; echo n > out/new")
    assert (done["state"], home.stored("out")["metrics.csv"]) == ("succeeded", b"epoch2\n")
    assert "replaced `metrics.csv` of `out` in the store, which had other contents" in done["detail"]
    assert done["detail"].count("`") == 4, "same.txt is the same, and new is new"
    assert "replaced `metrics.csv`" in home.gofer("q", done["id"]).out


def test_files_that_came_or_changed_meanwhile_stay_and_both_are_kept(home: FolderHome) -> None:
    home.map(out="upload")
    home.put({"old.csv": b"old\n"}, folder="out")
    gate = home.root / "gate"
    large = "head -c 5000000 /dev/zero > out/large.bin"
    write = f"echo mine > out/old.csv; echo mine > out/dir.d/.new; echo mine > out/plain; {large}"
    script = f"mkdir -p out/dir.d; echo up; until [ -e '{gate}' ]; do sleep 0.05; done; {write}"
    run = home.begin("sh", "-c", script)
    home.until_logged(run, "up")
    theirs = {"old.csv": b"theirs!\n", "dir.d/.new": b"theirs!\n", "large.bin": b"theirs!\n"}
    home.put(theirs, folder="out")
    gate.touch()
    (done,) = home.wait(run)
    found = home.stored("out")
    assert {name: found[name] for name in theirs} == theirs
    assert found["plain"] == found[f"old.{run}.csv"] == found[f"dir.d/.new.{run}"] == b"mine\n"
    assert found[f"large.{run}.bin"] == bytes(5_000_000)
    assert done["state"] == "succeeded"
    assert (
        "changed in the store during the run, and was not replaced" in done["detail"]
        and f"`old.{run}.csv`" in done["detail"]
    )


def test_the_id_of_the_run_in_the_path_keeps_runs_apart(home: FolderHome) -> None:
    home.map(out="upload")
    text = (home.folder / "gofer.yaml").read_text().replace("me/out", "me/out/{run}/files")
    home.configure(text)
    first, second = (home.run("sh", "-c", "echo $GOFER_RUN_ID > out/metrics.csv") for _ in range(2))
    group = home.begin("--each", "i=1,2", "sh", "-c", "echo $GOFER_RUN_ID > out/metrics.csv")
    home.wait(group)
    ids = [first["id"], second["id"], f"{group}-0", f"{group}-1"]
    assert home.stored("out") == {f"{one}/files/metrics.csv": f"{one}\n".encode() for one in ids}
    assert (first["detail"], second["detail"]) == (None, None)
    listed = home.gofer("ls", "-r", "out/").out
    assert all(f"{one}/files/metrics.csv" in listed for one in ids)
