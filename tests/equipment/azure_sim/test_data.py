"""Inputs and outputs of jobs: brought and taken back by the credentials of their datastore alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from services.azure import Azure
from services.azure_jobs import body, submit, wait_for_output

from simulators.azure.read_only_inputs import may_mount

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-data")]


def store(azure: Azure, name: str, credentials: dict[str, Any], account: str = "dummytwo") -> str:
    """A datastore over a new container with `in/a.txt` and `in/deep/b.txt`; the container."""
    container = azure.container("data", account)
    client = azure.blob_client(account).get_container_client(container)
    client.upload_blob("in/a.txt", b"alpha\n")
    client.upload_blob("in/deep/b.txt", b"beta\n")
    sas = azure.account(account).container_sas(container, credentials.get("permissions", "rwdl"))
    kinds: dict[str, dict[str, Any]] = {
        "key": {
            "credentialsType": "AccountKey",
            "secrets": {"secretsType": "AccountKey", "key": azure.keys[account]},
        },
        "sas": {"credentialsType": "Sas", "secrets": {"secretsType": "Sas", "sasToken": sas}},
        "none": {"credentialsType": "None"},
    }
    properties = {
        "datastoreType": "AzureBlob",
        "accountName": account,
        "containerName": container,
        "endpoint": "core.windows.net",
        "protocol": "https",
        "credentials": credentials.get("exact") or kinds[credentials["kind"]],
    }
    status, answer = azure.arm("PUT", f"/datastores/{name}", {"properties": properties})
    assert status == 201, answer
    assert "secrets" not in answer["properties"]["credentials"]
    return container


def uri(name: str, path: str) -> str:
    return f"azureml://datastores/{name}/paths/{path}"


def blobs(azure: Azure, container: str, account: str = "dummytwo") -> dict[str, bytes]:
    client = azure.blob_client(account).get_container_client(container)
    return {name: client.download_blob(name).readall() for name in client.list_blob_names()}


@pytest.mark.parametrize("kind", ["key", "sas", "none"])
def test_inputs_and_outputs_by_each_credential(azure: Azure, kind: str) -> None:
    container = store(azure, f"by_{kind}", {"kind": kind})
    inputs = {
        "all": {"jobInputType": "uri_folder", "uri": uri(f"by_{kind}", "in"), "mode": "ReadOnlyMount"},
        "one": {"jobInputType": "uri_file", "uri": uri(f"by_{kind}", "in/a.txt"), "mode": "Download"},
        "word": {"jobInputType": "literal", "value": "x y"},
    }
    outputs = {
        "kept": {"jobOutputType": "uri_folder", "uri": uri(f"by_{kind}", "in"), "mode": "ReadWriteMount"},
        "new": {"jobOutputType": "uri_folder", "uri": uri(f"by_{kind}", "out"), "mode": "Upload"},
    }
    command = "; ".join(
        [
            "cat ${{inputs.all}}/deep/b.txt ${{inputs.one}}",
            "echo '${{inputs.word}}'",
            "cat ${{outputs.kept}}/a.txt && rm ${{outputs.kept}}/a.txt && echo c > ${{outputs.kept}}/c.txt",
            "ls ${{outputs.new}} && echo d > ${{outputs.new}}/d.txt",
            "echo $AZURE_ML_INPUT_one",
        ]
    )
    submit(azure, f"data-{kind}", command, inputs=inputs, outputs=outputs)
    job = azure.wait(f"data-{kind}")
    assert job["status"] == "Completed", job["error"]
    lines = azure.log(f"data-{kind}").splitlines()
    assert lines[:4] == ["beta", "alpha", "x y", "alpha"]
    assert lines[4].endswith("/inputs/one/a.txt")
    assert blobs(azure, container) == {"in/deep/b.txt": b"beta\n", "in/c.txt": b"c\n", "out/d.txt": b"d\n"}


def test_a_read_only_mount_cannot_be_written(azure: Azure) -> None:
    """Neither its files nor its folders, and not by root either."""
    assert os.geteuid() != 0 or may_mount(), "root needs the right to mount for this test"
    container = store(azure, "sealed", {"kind": "key"})
    inputs = {"in": {"jobInputType": "uri_folder", "uri": uri("sealed", "in"), "mode": "ReadOnlyMount"}}
    tries = ["echo x > new", "echo x >> a.txt", "rm -f a.txt", "rm -rf deep", "mkdir d", "echo x > deep/new"]
    words = "; ".join(f"({one}) 2>/dev/null && echo done: {one}" for one in tries)
    submit(azure, "sealed", f"cd ${{{{inputs.in}}}}; {words}; cat a.txt deep/b.txt", inputs=inputs)
    job = azure.wait("sealed")
    assert job["status"] == "Completed", job["error"]
    assert azure.log("sealed") == "alpha\nbeta\n"
    assert blobs(azure, container) == {"in/a.txt": b"alpha\n", "in/deep/b.txt": b"beta\n"}
    assert not (azure.folder / "jobs/sealed/attempt-1").exists()


def test_a_write_to_a_read_only_mount_fails(azure: Azure) -> None:
    """From outside of the mount, as where none could be made."""
    store(azure, "unsealed", {"kind": "key"})
    inputs = {"in": {"jobInputType": "uri_folder", "uri": uri("unsealed", "in")}}
    command = f"echo ${{{{inputs.in}}}}; until [ -e {azure.folder}/go ]; do sleep 0.1; done"
    submit(azure, "unsealed", command, inputs=inputs)
    wait_for_output(azure, "unsealed", "/inputs/in")
    folder = Path(azure.log("unsealed").strip())
    (folder / "deep").chmod(0o755)
    (folder / "deep/b.txt").unlink()
    (folder / "deep/c.txt").touch()
    (azure.folder / "go").touch()
    job = azure.wait("unsealed")
    assert job["status"] == "Failed"
    assert (
        "'in' is mounted read-only, and the job changed it: deep/b.txt, deep/c.txt" in job["error"]["message"]
    )


def test_a_downloaded_input_is_the_jobs_own(azure: Azure) -> None:
    store(azure, "loaded", {"kind": "key"})
    inputs = {"in": {"jobInputType": "uri_folder", "uri": uri("loaded", "in"), "mode": "Download"}}
    submit(azure, "loaded", "cd ${{inputs.in}} && rm -r a.txt deep && echo x > new", inputs=inputs)
    assert azure.wait("loaded")["status"] == "Completed"


@pytest.mark.parametrize(
    ("name", "credentials", "words"),
    [
        ("no_list", {"kind": "sas", "permissions": "r"}, "PermissionDenied"),
        (
            "bad_key",
            {"exact": {"credentialsType": "AccountKey", "secrets": {"key": "AAAA"}}},
            "PermissionDenied",
        ),
        (
            "no_sas",
            {"exact": {"credentialsType": "Sas", "secrets": {"sasToken": ""}}},
            "PermissionDenied|NotFound",
        ),
    ],
)
def test_a_credential_without_the_right_fails_the_job(
    azure: Azure, name: str, credentials: Any, words: str
) -> None:
    store(azure, name, credentials)
    inputs = {"all": {"jobInputType": "uri_folder", "uri": uri(name, "in"), "mode": "Download"}}
    submit(azure, name.replace("_", "-"), "ls ${{inputs.all}}", inputs=inputs)
    job = azure.wait(name.replace("_", "-"))
    assert (job["status"], job["error"]["code"]) == ("Failed", "UserError")
    assert any(word in job["error"]["message"] for word in words.split("|")), job["error"]
    assert "Running" not in [word for word, _ in job["history"]]


def test_a_sas_that_may_not_write_fails_the_upload(azure: Azure) -> None:
    container = store(azure, "read_only", {"kind": "sas", "permissions": "rl"})
    outputs = {
        "new": {"jobOutputType": "uri_folder", "uri": uri("read_only", "out"), "mode": "ReadWriteMount"}
    }
    submit(azure, "read-only", "echo x > ${{outputs.new}}/x", outputs=outputs)
    job = azure.wait("read-only")
    assert job["status"] == "Failed"
    assert "upload 'new'" in job["error"]["message"]
    assert "out/x" not in blobs(azure, container)


@pytest.mark.parametrize(
    "path", ["datastores/nothing/paths/x", "datastores/workspaceblobstore/paths/nothing"]
)
def test_what_is_not_there_fails_the_job(azure: Azure, path: str) -> None:
    name = f"missing-{path.count('blobstore')}"
    inputs = {"x": {"jobInputType": "uri_folder", "uri": f"azureml://{path}", "mode": "Download"}}
    submit(azure, name, "ls ${{inputs.x}}", inputs=inputs)
    job = azure.wait(name)
    assert (job["status"], job["error"]["code"]) == ("Failed", "UserError")


def test_code_of_the_job_is_its_working_folder(azure: Azure) -> None:
    container = azure.container("code", "dummyone")
    client = azure.blob_client("dummyone").get_container_client(container)
    client.upload_blob("me/run.sh", b"echo from the code\n")
    code = {"properties": {"codeUri": f"{azure.blobs}/dummyone/{container}/me"}}
    status, made = azure.arm("PUT", "/codes/me/versions/1", code)
    assert status == 201
    submit(azure, "code", "bash run.sh", codeId=made["id"])
    azure.wait("code")
    assert azure.log("code") == "from the code\n"
    other = {"properties": {"codeUri": f"{azure.blobs}/dummyone/{container}/other"}}
    assert azure.arm("PUT", "/codes/me/versions/1", other)[0] == 400


def test_a_reference_may_have_blanks_and_stand_twice(azure: Azure) -> None:
    wanted = body(
        azure, "echo ${{ inputs.x }} ${{inputs.x}}", inputs={"x": {"jobInputType": "literal", "value": "1"}}
    )
    assert azure.arm("PUT", "/jobs/spaces", wanted)[0] == 201
    azure.wait("spaces")
    assert azure.log("spaces") == "1 1\n"


def test_an_image_that_is_not_there_fails_the_job(azure: Azure) -> None:
    image = {"properties": {"image": "registry.example/no-such-image:1"}}
    _, made = azure.arm("PUT", "/environments/none/versions/1", image)
    wanted = body(azure, "true")
    wanted["properties"]["environmentId"] = made["id"]
    assert azure.arm("PUT", "/jobs/no-image", wanted)[0] == 201
    job = azure.wait("no-image")
    assert (job["status"], job["error"]["innerError"]["code"]) == ("Failed", "ImagePullError")
    assert "no-such-image:1" in job["error"]["message"]
