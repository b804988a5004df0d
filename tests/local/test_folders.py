"""Mapped folders of a run of any mode: which it has, what a record knows, what the code leaves out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from data.seeds import ACCOUNT, CLUSTER, write_account, write_cluster
from home import until
from local.folder_fixtures import azure_home as azure_home
from local.folder_fixtures import file_home as file_home
from local.folder_home import FolderHome, azure_entry
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.proxy import Fault, proxied

from gofer.errors import ConfigError
from gofer.model.job import JobFolder
from gofer.ops.session import Session
from gofer.ops.submission import mapped_folders

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("folders")]


def planned(home: FolderHome, *words: str) -> dict[str, Any]:
    """The folders in what `--dry-run` prints."""
    found: dict[str, Any] = json.loads(home.gofer("submit", "--dry-run", *words, "true").out)["folders"]
    return found


def recorded(home: FolderHome, run_id: str) -> dict[str, Any]:
    """The folders in the run's record."""
    record = json.loads((home.run_folder(run_id) / "run.json").read_text())
    found: dict[str, Any] = record["job"].get("folders", {})
    return found


def _id(answer: Any) -> str:
    """The id of the new run in the answer of `resubmit --json`."""
    one = answer[0] if isinstance(answer, list) else answer
    return str(one["new"]["id"] if "new" in one else one["id"])


def test_without_a_mode_the_projects_own_folder_is_the_folder(azure_home: FolderHome) -> None:
    azure_home.map(data=None)
    azure_home.put({"x": b"the store's"})
    (azure_home.folder / "data").mkdir()
    (azure_home.folder / "data/x").write_text("the project's")
    done = azure_home.run("sh", "-c", "cat data/x; echo new > data/y")
    assert azure_home.log(done["id"]) == "the project's"
    assert (azure_home.folder / "data/y").read_text() == "new\n"
    assert azure_home.stored("data") == {"x": b"the store's"}


def test_without_a_mode_and_a_folder_here_it_is_the_stores(azure_home: FolderHome) -> None:
    azure_home.map(data=None)
    azure_home.put({"x": b"the store's"})
    assert azure_home.log(azure_home.run("cat", "data/x")["id"]) == "the store's"


def test_a_mode_that_is_written_is_obeyed_although_the_project_has_the_folder(file_home: FolderHome) -> None:
    file_home.map(data="copy", out="upload")
    for name in ("data", "out"):
        (file_home.folder / name).mkdir()
        (file_home.folder / name / "mine").write_text("the project's")
    file_home.put({"x": b"the store's"})
    done = file_home.run("sh", "-c", "ls data out/; echo r > out/r")
    assert file_home.log(done["id"]) == "data:\nx\n\nout/:\n"
    assert file_home.stored("out") == {"r": b"r\n"}


def test_mapped_folders_are_no_part_of_the_code(file_home: FolderHome) -> None:
    file_home.map(data=None, out="upload")
    for name in ("data/a", "out/b", "src/data/c", "dataset/d"):
        path = file_home.folder / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
    (file_home.folder / ".goferignore").write_text("!data\n!out\n")
    done = file_home.run("find", ".", "-type", "f")
    sent = ["./.goferignore", "./dataset/d", "./gofer.yaml", "./src/data/c"]
    assert sorted(file_home.log(done["id"]).split()) == sent


def test_init_leaves_mapped_folders_out_too(file_home: FolderHome) -> None:
    file_home.map(data=None)
    (file_home.folder / "data").mkdir()
    (file_home.folder / "data/large").write_bytes(b"x" * 10_000)
    done = file_home.gofer("init")
    assert "data/" in done.out + done.err
    assert sum(path.stat().st_size for path in file_home.store.rglob("packs/*")) < 5_000


def test_the_plan_and_the_record_show_the_folders_and_no_secret(azure_home: FolderHome) -> None:
    azure_home.map(data="copy", out="upload")
    (azure_home.folder / "here").mkdir()
    text = (azure_home.folder / "gofer.yaml").read_text()
    azure_home.configure(text + "  here: {store: blob, path: me/here}\n")
    url = azure_home.blob.url
    wanted = {
        "data": {"store": url, "path": "me/data", "mode": "copy"},
        "out": {"store": url, "path": "me/out", "mode": "upload"},
        "here": {"store": url, "path": "me/here", "mode": "link", "here": str(azure_home.folder / "here")},
    }
    assert planned(azure_home) == wanted
    done = azure_home.run("true")
    assert recorded(azure_home, done["id"]) == wanted
    until(lambda: not os.listdir(azure_home.queue_home / "sealed"), "nothing sealed")
    key = azure_home.environ["DUMMY_KEY"].encode()
    kept = [path for path in azure_home.path.rglob("*") if path.is_file()]
    assert [path for path in kept if key in path.read_bytes() or b"sig=" in path.read_bytes()] == []


def test_set_up_and_a_run_without_code_have_them_too(file_home: FolderHome) -> None:
    file_home.put({"x": b"data"})
    done = file_home.finish("--setup", "cat data/x > seen", "cat", "seen", "data/x")
    assert file_home.log(done["id"]) == "datadata"


def test_a_target_has_folders_of_its_own(file_home: FolderHome) -> None:
    text = (file_home.folder / "gofer.yaml").read_text()
    more = "{store: blob, path: m, mode: upload}"
    own = f"{{kind: local, folders: {{data: {{store: blob, path: other/data}}, more: {more}}}}}"
    file_home.configure(f"{text}targets: {{box: {own}}}\n")
    assert planned(file_home).keys() == {"data"}
    found = planned(file_home, "-t", "box")
    assert {name: (one["path"], one["mode"]) for name, one in found.items()} == {
        "data": ("other/data", "copy"),
        "more": ("m", "upload"),
    }


def test_a_file_of_that_name_in_the_project_is_refused(file_home: FolderHome) -> None:
    (file_home.folder / "data").write_text("a file")
    done = file_home.gofer("submit", "true", status=1)
    assert f"`{file_home.folder}/data` is not a folder" in done.err
    assert "another name" in done.err


def test_code_that_was_sent_with_such_a_folder_in_it_is_not_hidden(file_home: FolderHome) -> None:
    (file_home.folder / "data").mkdir()
    (file_home.folder / "data/x").write_text("code")
    file_home.configure("stores: {}\n")
    old = file_home.run("cat", "data/x")["id"]
    file_home.map(data="copy")
    text = (file_home.folder / "gofer.yaml").read_text()
    file_home.configure(text + "targets: {box: {kind: local}}\n")
    same = json.loads(file_home.gofer("resubmit", "-Q", "--json", "--same-code", old).out)
    assert file_home.wait(_id(same))[0]["state"] == "succeeded"
    other = json.loads(file_home.gofer("resubmit", "-Q", "--json", "--same-code", "-t", "box", old).out)
    done = file_home.wait(_id(other))[0]
    assert (done["state"], done["reason"]) == ("failed", "staging")
    assert "the code of the run already has a `data`" in done["detail"]


def test_a_repeated_run_has_the_folders_it_had(file_home: FolderHome) -> None:
    file_home.map(data=None)
    (file_home.folder / "data").mkdir()
    first = file_home.run("true")["id"]
    file_home.map(data="copy")
    again = _id(json.loads(file_home.gofer("resubmit", "-Q", "--json", first).out))
    assert recorded(file_home, again) == recorded(file_home, first)
    file_home.wait(again)
    (file_home.folder / "data").rmdir()
    done = file_home.gofer("resubmit", first, status=1)
    words = f"the folder `data` of the run was `{file_home.folder}/data`, which does not exist here"
    assert words in done.err


def test_a_script_in_a_mapped_folder_is_found(file_home: FolderHome) -> None:
    file_home.map(tools=None)
    (file_home.folder / "tools").mkdir()
    (file_home.folder / "tools/run.py").write_text("print('from the folder')")
    assert file_home.log(file_home.run("python", "tools/run.py")["id"]) == "from the folder\n"


def test_a_store_that_runs_cannot_reach_is_refused(file_home: FolderHome) -> None:
    file_home.entry = {"url": "memory://there"}
    file_home.map(data="copy")
    done = file_home.gofer("submit", "true", status=1)
    assert "the folder `data` is in memory://there, which runs cannot reach" in done.err
    assert "`file://`, `az://` or `s3://`" in done.err


def test_a_store_that_the_settings_do_not_have_is_refused(file_home: FolderHome) -> None:
    file_home.configure("folders: {data: {store: nowhere, path: x}}\n")
    assert "nowhere" in file_home.gofer("submit", "true", status=2).err


def test_the_folder_of_a_submission_from_below_the_project(file_home: FolderHome) -> None:
    file_home.put({"x": b"data"})
    below = file_home.folder / "src"
    below.mkdir()
    (below / "here").touch()
    done = file_home.gofer("submit", "-Q", "--wait", "cat", "../data/x", cwd=below)
    assert file_home.log(done.out.split()[0]) == "data"


def test_odd_words_in_a_path_of_the_store(file_home: FolderHome, tmp_path: Path) -> None:
    path = "with blank/ü $(x)/%41"
    values = f"{{store: blob, path: '{path}', mode: copy}}"
    file_home.configure(
        f"stores: {{blob: {{url: '{(tmp_path / 'blobs').as_uri()}'}}}}\nfolders: {{data: {values}}}\n"
    )
    file_home.blob.put(f"{path}/x", b"1")
    assert file_home.log(file_home.run("cat", "data/x")["id"]) == "1"


def test_the_folders_of_the_older_tools_files_are_mounted_on_their_clusters(file_home: FolderHome) -> None:
    account = ACCOUNT.format(name="acct", key="ZHVtbXk=", sas="null", container="box")
    write_cluster(file_home.folder, "eu", "acct")
    write_account(file_home.folder, "acct", account)
    (file_home.folder / "data").mkdir()
    found = mapped_folders.of_target(Session(file_home.folder, file_home.environ), "eu", local=False)
    assert found == {
        "data": JobFolder(store="az://box@acct", path="path/to/data", mode="mount"),
        "output": JobFolder(store="az://box@acct", path="path/to/output", mode="mount"),
    }


def test_a_name_that_would_leave_the_code_is_refused(file_home: FolderHome) -> None:
    text = CLUSTER.replace("data_folder:", "../data_folder:")
    write_cluster(file_home.folder, "eu", "acct", text)
    write_account(
        file_home.folder, "acct", ACCOUNT.format(name="a", key="ZHVtbXk=", sas="null", container="b")
    )
    session = Session(file_home.folder, file_home.environ)
    with pytest.raises(ConfigError, match=r"`\.\./data` cannot be placed beside the code"):
        mapped_folders.of_target(session, "eu", local=False)


def remote(home: FolderHome) -> None:
    """Let the runs themselves be in the object store too."""
    text = (home.folder / "gofer.yaml").read_text()
    home.configure(text + "targets: {local: {kind: local, store: blob}}\n")


def test_a_run_whose_own_folder_is_in_an_object_store_has_them_too(azure_home: FolderHome) -> None:
    azure_home.map(data="copy", out="upload")
    remote(azure_home)
    azure_home.put({"x": b"data"})
    (azure_home.folder / "code.txt").write_text("code")
    done = azure_home.run("sh", "-c", "cat code.txt data/x | tee out/joined")
    assert done["state"] == "succeeded", done["detail"]
    assert azure_home.log(done["id"]) == "codedata"
    assert azure_home.stored("out") == {"joined": b"codedata"}


def test_an_abort_does_not_wait_for_the_code(tmp_path: Path, azurite: Azurite) -> None:
    with proxied(azurite.port) as proxy:
        entry = azure_entry(azurite.one, f"http://127.0.0.1:{proxy.port}/{azurite.one.name}")
        home = FolderHome(tmp_path, entry, azurite.one.key)
        home.configure(f"stores: {{blob: {json.dumps(entry)}}}\n")
        remote(home)
        proxy.faults = lambda one: Fault("stall") if one.method == "GET" and "/packs/" in one.path else None
        run_id = home.begin("true")
        until(
            lambda: any(one.method == "GET" and "/packs/" in one.path for one in proxy.requests), "the code"
        )
        home.gofer("abort", run_id)
        done = home.wait(run_id)[0]
        assert (done["state"], done["reason"]) == ("cancelled", "user")
        home.close()
