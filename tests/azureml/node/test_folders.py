"""Folders of a run: those that the service brings by path, and those that the agent brings itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from azureml.node.service import Service
from storage.clouds import azure_by_key

from gofer.core.store_spec import StoreSpec
from gofer.objects import open_objects
from gofer.snapshot.capture import take_snapshot
from gofer.storage.azure import AzureStore

pytestmark = pytest.mark.xdist_group("azure-folders")


def folder_spec(mode: str, path: str = "shared/data") -> dict[str, Any]:
    return {"store": "az://c@dummyone/pre", "path": path, "mode": mode, "here": None}


def test_what_the_service_brought_is_linked(service: Service, tmp_path: Path) -> None:
    given, out = tmp_path / "a b=c", tmp_path / "out"
    given.mkdir()
    out.mkdir()
    (given / "file").write_text("data\n")
    job = service.job(
        ["sh", "-c", "cat data/file; echo made > output/new; readlink output"],
        folders={"data": folder_spec("mount"), "output": folder_spec("upload", "out")},
    )
    job.words = [f"data={given}", f"output={out}"]
    (done,) = job.run()
    assert done.status == 0, done.err
    assert job.log() == f"data\n{out}\n"
    assert (out / "new").read_text() == "made\n"


def test_what_the_service_did_not_bring_is_a_failure_of_staging(service: Service, tmp_path: Path) -> None:
    job = service.job(["true"], folders={"data": folder_spec("mount")})
    job.words = [f"data={tmp_path / 'nowhere'}"]
    (done,) = job.run()
    assert (done.status, job.end()["reason"]) == (1, "staging")
    assert "the folder `data` could not be read" in job.end()["detail"]


def test_other_folders_are_the_agents_to_bring(service: Service) -> None:
    spec: StoreSpec = {**service.spec, "prefix": "elsewhere"}
    place = open_objects({**spec, "sas": service.spec["sas"]})
    place.put("in/file", b"copied\n")
    job = service.job(
        ["sh", "-c", "cat data/file; echo made > output/new"],
        folders={"data": folder_spec("copy", "in"), "output": folder_spec("upload", "out")},
        folders_spec={
            "data": {**spec, "prefix": "elsewhere/in"},
            "output": {**spec, "prefix": "elsewhere/out"},
        },
    )
    (done,) = job.run()
    assert done.status == 0, done.err
    assert job.log() == "copied\n"
    assert place.get("out/new") == b"made\n"


def test_the_code_comes_from_the_store(service: Service, tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "data").mkdir(parents=True)
    (code / "train.sh").write_text("echo code of mine\n")
    given = tmp_path / "given"
    given.mkdir()
    store = _store(service)
    snapshot = take_snapshot(code, store, cache_dir=tmp_path / "cache").id
    job = service.job(["sh", "train.sh"], snapshot=snapshot, folders={"data": folder_spec("mount")})
    job.words = [f"data={given}"]
    (done,) = job.run()
    assert (done.status, job.log()) == (0, "code of mine\n"), done.err


def _store(service: Service) -> AzureStore:
    return azure_by_key(service.account, service.container, "pre")
