"""Mapped folders of a run of any mode: which it has, what a record knows, what the code leaves out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from data.seeds import ACCOUNT, CLUSTER, write_account, write_cluster
from home import until
from local.folder_desk import FolderDesk, azure_entry
from local.folder_fixtures import azure_desk as azure_desk
from local.folder_fixtures import file_desk as file_desk
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.proxy import Fault, proxied

from gofer.errors import ConfigError
from gofer.model.job import JobFolder
from gofer.ops.session import Session
from gofer.ops.submission import mapped_folders

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("folders")]


def planned(desk: FolderDesk, *words: str) -> dict[str, Any]:
    """The folders in what `--dry-run` prints."""
    found: dict[str, Any] = json.loads(desk.gofer("submit", "--dry-run", *words, "true").out)["folders"]
    return found


def recorded(desk: FolderDesk, run_id: str) -> dict[str, Any]:
    """The folders in the run's record."""
    record = json.loads((desk.run_folder(run_id) / "run.json").read_text())
    found: dict[str, Any] = record["job"].get("folders", {})
    return found


def _id(answer: Any) -> str:
    """The id of the new run in the answer of `resubmit --json`."""
    one = answer[0] if isinstance(answer, list) else answer
    return str(one["new"]["id"] if "new" in one else one["id"])


def test_without_a_mode_the_projects_own_folder_is_the_folder(azure_desk: FolderDesk) -> None:
    azure_desk.map(data=None)
    azure_desk.put({"x": b"the store's"})
    (azure_desk.folder / "data").mkdir()
    (azure_desk.folder / "data/x").write_text("the project's")
    done = azure_desk.run("sh", "-c", "cat data/x; echo new > data/y")
    assert azure_desk.log(done["id"]) == "the project's"
    assert (azure_desk.folder / "data/y").read_text() == "new\n"
    assert azure_desk.stored("data") == {"x": b"the store's"}


def test_without_a_mode_and_a_folder_here_it_is_the_stores(azure_desk: FolderDesk) -> None:
    azure_desk.map(data=None)
    azure_desk.put({"x": b"the store's"})
    assert azure_desk.log(azure_desk.run("cat", "data/x")["id"]) == "the store's"


def test_a_mode_that_is_written_is_obeyed_although_the_project_has_the_folder(file_desk: FolderDesk) -> None:
    file_desk.map(data="copy", out="upload")
    for name in ("data", "out"):
        (file_desk.folder / name).mkdir()
        (file_desk.folder / name / "mine").write_text("the project's")
    file_desk.put({"x": b"the store's"})
    done = file_desk.run("sh", "-c", "ls data out/; echo r > out/r")
    assert file_desk.log(done["id"]) == "data:\nx\n\nout/:\n"
    assert file_desk.stored("out") == {"r": b"r\n"}


def test_mapped_folders_are_no_part_of_the_code(file_desk: FolderDesk) -> None:
    file_desk.map(data=None, out="upload")
    for name in ("data/a", "out/b", "src/data/c", "dataset/d"):
        path = file_desk.folder / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
    (file_desk.folder / ".goferignore").write_text("!data\n!out\n")
    done = file_desk.run("find", ".", "-type", "f")
    sent = ["./.goferignore", "./dataset/d", "./gofer.yaml", "./src/data/c"]
    assert sorted(file_desk.log(done["id"]).split()) == sent


def test_init_leaves_mapped_folders_out_too(file_desk: FolderDesk) -> None:
    file_desk.map(data=None)
    (file_desk.folder / "data").mkdir()
    (file_desk.folder / "data/large").write_bytes(b"x" * 10_000)
    done = file_desk.gofer("init")
    assert "data/" in done.out + done.err
    assert sum(path.stat().st_size for path in file_desk.store.rglob("packs/*")) < 5_000


def test_the_plan_and_the_record_show_the_folders_and_no_secret(azure_desk: FolderDesk) -> None:
    azure_desk.map(data="copy", out="upload")
    (azure_desk.folder / "here").mkdir()
    text = (azure_desk.folder / "gofer.yaml").read_text()
    azure_desk.configure(text + "  here: {store: blob, path: me/here}\n")
    url = azure_desk.blob.url
    wanted = {
        "data": {"store": url, "path": "me/data", "mode": "copy"},
        "out": {"store": url, "path": "me/out", "mode": "upload"},
        "here": {"store": url, "path": "me/here", "mode": "link", "here": str(azure_desk.folder / "here")},
    }
    assert planned(azure_desk) == wanted
    done = azure_desk.run("true")
    assert recorded(azure_desk, done["id"]) == wanted
    until(lambda: not os.listdir(azure_desk.engine / "sealed"), "nothing sealed")
    key = azure_desk.environ["DUMMY_KEY"].encode()
    kept = [path for path in azure_desk.path.rglob("*") if path.is_file()]
    assert [path for path in kept if key in path.read_bytes() or b"sig=" in path.read_bytes()] == []


def test_set_up_and_a_run_without_code_have_them_too(file_desk: FolderDesk) -> None:
    file_desk.put({"x": b"data"})
    done = file_desk.finish("--setup", "cat data/x > seen", "cat", "seen", "data/x")
    assert file_desk.log(done["id"]) == "datadata"


def test_a_target_has_folders_of_its_own(file_desk: FolderDesk) -> None:
    text = (file_desk.folder / "gofer.yaml").read_text()
    more = "{store: blob, path: m, mode: upload}"
    own = f"{{kind: local, folders: {{data: {{store: blob, path: other/data}}, more: {more}}}}}"
    file_desk.configure(f"{text}targets: {{box: {own}}}\n")
    assert planned(file_desk).keys() == {"data"}
    found = planned(file_desk, "-t", "box")
    assert {name: (one["path"], one["mode"]) for name, one in found.items()} == {
        "data": ("other/data", "copy"),
        "more": ("m", "upload"),
    }


def test_a_file_of_that_name_in_the_project_is_refused(file_desk: FolderDesk) -> None:
    (file_desk.folder / "data").write_text("a file")
    done = file_desk.gofer("submit", "true", status=1)
    assert f"`{file_desk.folder}/data` is not a folder" in done.err
    assert "another name" in done.err


def test_code_that_was_sent_with_such_a_folder_in_it_is_not_hidden(file_desk: FolderDesk) -> None:
    (file_desk.folder / "data").mkdir()
    (file_desk.folder / "data/x").write_text("code")
    file_desk.configure("stores: {}\n")
    old = file_desk.run("cat", "data/x")["id"]
    file_desk.map(data="copy")
    text = (file_desk.folder / "gofer.yaml").read_text()
    file_desk.configure(text + "targets: {box: {kind: local}}\n")
    same = json.loads(file_desk.gofer("resubmit", "-Q", "--json", "--same-code", old).out)
    assert file_desk.wait(_id(same))[0]["state"] == "succeeded"
    other = json.loads(file_desk.gofer("resubmit", "-Q", "--json", "--same-code", "-t", "box", old).out)
    done = file_desk.wait(_id(other))[0]
    assert (done["state"], done["reason"]) == ("failed", "staging")
    assert "the code of the run already has a `data`" in done["detail"]


def test_a_repeated_run_has_the_folders_it_had(file_desk: FolderDesk) -> None:
    file_desk.map(data=None)
    (file_desk.folder / "data").mkdir()
    first = file_desk.run("true")["id"]
    file_desk.map(data="copy")
    again = _id(json.loads(file_desk.gofer("resubmit", "-Q", "--json", first).out))
    assert recorded(file_desk, again) == recorded(file_desk, first)
    file_desk.wait(again)
    (file_desk.folder / "data").rmdir()
    done = file_desk.gofer("resubmit", first, status=1)
    words = f"the folder `data` of the run was `{file_desk.folder}/data`, which does not exist here"
    assert words in done.err


def test_a_script_in_a_mapped_folder_is_found(file_desk: FolderDesk) -> None:
    file_desk.map(tools=None)
    (file_desk.folder / "tools").mkdir()
    (file_desk.folder / "tools/run.py").write_text("print('from the folder')")
    assert file_desk.log(file_desk.run("python", "tools/run.py")["id"]) == "from the folder\n"


def test_a_store_that_runs_cannot_reach_is_refused(file_desk: FolderDesk) -> None:
    file_desk.entry = {"url": "memory://there"}
    file_desk.map(data="copy")
    done = file_desk.gofer("submit", "true", status=1)
    assert "the folder `data` is in memory://there, which runs cannot reach" in done.err
    assert "`file://`, `az://` or `s3://`" in done.err


def test_a_store_that_the_settings_do_not_have_is_refused(file_desk: FolderDesk) -> None:
    file_desk.configure("folders: {data: {store: nowhere, path: x}}\n")
    assert "nowhere" in file_desk.gofer("submit", "true", status=2).err


def test_the_folder_of_a_submission_from_below_the_project(file_desk: FolderDesk) -> None:
    file_desk.put({"x": b"data"})
    below = file_desk.folder / "src"
    below.mkdir()
    (below / "here").touch()
    done = file_desk.gofer("submit", "-Q", "--wait", "cat", "../data/x", cwd=below)
    assert file_desk.log(done.out.split()[0]) == "data"


def test_odd_words_in_a_path_of_the_store(file_desk: FolderDesk, tmp_path: Path) -> None:
    path = "with blank/ü $(x)/%41"
    values = f"{{store: blob, path: '{path}', mode: copy}}"
    file_desk.configure(
        f"stores: {{blob: {{url: '{(tmp_path / 'blobs').as_uri()}'}}}}\nfolders: {{data: {values}}}\n"
    )
    file_desk.blob.put(f"{path}/x", b"1")
    assert file_desk.log(file_desk.run("cat", "data/x")["id"]) == "1"


def test_the_folders_of_the_older_tools_files_are_mounted_on_their_clusters(file_desk: FolderDesk) -> None:
    account = ACCOUNT.format(name="acct", key="ZHVtbXk=", sas="null", container="box")
    write_cluster(file_desk.folder, "eu", "acct")
    write_account(file_desk.folder, "acct", account)
    (file_desk.folder / "data").mkdir()
    found = mapped_folders.of_target(Session(file_desk.folder, file_desk.environ), "eu", local=False)
    assert found == {
        "data": JobFolder(store="az://box@acct", path="path/to/data", mode="mount"),
        "output": JobFolder(store="az://box@acct", path="path/to/output", mode="mount"),
    }


def test_a_name_that_would_leave_the_code_is_refused(file_desk: FolderDesk) -> None:
    text = CLUSTER.replace("data_folder:", "../data_folder:")
    write_cluster(file_desk.folder, "eu", "acct", text)
    write_account(
        file_desk.folder, "acct", ACCOUNT.format(name="a", key="ZHVtbXk=", sas="null", container="b")
    )
    session = Session(file_desk.folder, file_desk.environ)
    with pytest.raises(ConfigError, match=r"`\.\./data` cannot be placed beside the code"):
        mapped_folders.of_target(session, "eu", local=False)


def remote(desk: FolderDesk) -> None:
    """Let the runs themselves be in the object store too."""
    text = (desk.folder / "gofer.yaml").read_text()
    desk.configure(text + "targets: {local: {kind: local, store: blob}}\n")


def test_a_run_whose_own_folder_is_in_an_object_store_has_them_too(azure_desk: FolderDesk) -> None:
    azure_desk.map(data="copy", out="upload")
    remote(azure_desk)
    azure_desk.put({"x": b"data"})
    (azure_desk.folder / "code.txt").write_text("code")
    done = azure_desk.run("sh", "-c", "cat code.txt data/x | tee out/joined")
    assert done["state"] == "succeeded", done["detail"]
    assert azure_desk.log(done["id"]) == "codedata"
    assert azure_desk.stored("out") == {"joined": b"codedata"}


def test_an_abort_does_not_wait_for_the_code(tmp_path: Path, azurite: Azurite) -> None:
    with proxied(azurite.port) as proxy:
        entry = azure_entry(azurite.one, f"http://127.0.0.1:{proxy.port}/{azurite.one.name}")
        desk = FolderDesk(tmp_path, entry, azurite.one.key)
        desk.configure(f"stores: {{blob: {json.dumps(entry)}}}\n")
        remote(desk)
        proxy.faults = lambda one: Fault("stall") if one.method == "GET" and "/packs/" in one.path else None
        run_id = desk.begin("true")
        until(
            lambda: any(one.method == "GET" and "/packs/" in one.path for one in proxy.requests), "the code"
        )
        desk.gofer("abort", run_id)
        done = desk.wait(run_id)[0]
        assert (done["state"], done["reason"]) == ("cancelled", "user")
        desk.close()
