"""The official client of Azure ML, unchanged, at work on the simulator: a program that test_witness runs.

Prints one JSON object: the result or the error of each operation.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from azure.ai.ml import Input, MLClient, MpiDistribution, Output, PyTorchDistribution, command
from azure.ai.ml.constants import ListViewType
from azure.ai.ml.entities import (
    AccountKeyConfiguration,
    AzureBlobDatastore,
    Environment,
    JobResourceConfiguration,
    SshJobService,
)
from azure.identity import ClientSecretCredential, DeviceCodeCredential, ManagedIdentityCredential

SUBSCRIPTION, GROUP, WORKSPACE, CLUSTER, KEY = sys.argv[1:6]
FOLDER = Path(sys.argv[6])
CURATED = "sklearn-1.5@latest"
WAIT = f"until [ -e {FOLDER}/go ]; do sleep 0.1; done"


def client() -> MLClient:
    environ = os.environ
    credential = ClientSecretCredential(
        environ["AZURE_TENANT_ID"],
        environ["AZURE_CLIENT_ID"],
        environ["AZURE_CLIENT_SECRET"],
        authority=environ["AZURE_AUTHORITY_HOST"],
        disable_instance_discovery=True,
    )
    return MLClient(credential, SUBSCRIPTION, GROUP, WORKSPACE)


ML = client()


def run(text: str, **more: Any) -> str:
    job = command(command=text, **{"environment": CURATED, "compute": "cpu-cluster", **more})
    return str(ML.jobs.create_or_update(job).name)


def status_of(name: str) -> str:
    status = ML.jobs.get(name).status
    return str(getattr(status, "value", status))


def ended(name: str) -> str:
    deadline = time.monotonic() + 180
    while (status := status_of(name)) not in ("Completed", "Failed", "Canceled"):
        assert time.monotonic() < deadline, f"{name} stays {status}"
        time.sleep(0.2)
    return status


def streamed(name: str) -> str:
    """What `stream` prints. It shows logs only of a job that it finds at work, hence the file `go`."""
    result = io.StringIO()
    release = threading.Thread(target=let_go, args=(details_asked(),))
    release.start()
    try:
        with contextlib.redirect_stdout(result):
            ML.jobs.stream(name)
    finally:
        release.join()
    return result.getvalue()


def let_go(before: int) -> None:
    """Once the stream has asked how the job stands, and so has found it at work."""
    deadline = time.monotonic() + 120
    while details_asked() == before and time.monotonic() < deadline:
        time.sleep(0.05)
    (FOLDER / "go").touch()


def details_asked() -> int:
    """How often the details of a run were asked for, as the simulator counts it."""
    headers = {"Authorization": f"Bearer {os.environ['SIM_ADMIN_TOKEN']}"}
    request = urllib.request.Request(f"{os.environ['AZURE_AUTHORITY_HOST']}/_sim/counters", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        asked: dict[str, int] = json.load(answer)["requests"]
    return sum(count for route, count in asked.items() if route.endswith("/runs/{name}/details"))


def code_and_data() -> Any:
    code, data = FOLDER / "code", FOLDER / "data.txt"
    code.mkdir()
    (code / "train.py").write_text("print('code', open(__file__).name.endswith('train.py'))\n")
    data.write_text("what was uploaded\n")
    name = run(
        WAIT + "; python3 train.py; cat ${{inputs.text}}; date > ${{outputs.made}}/f; echo ${{inputs.rate}}",
        code=str(code),
        inputs={"text": Input(type="uri_file", path=str(data)), "rate": 0.5},
        outputs={"made": Output(type="uri_folder")},
        environment=Environment(image="ubuntu:22.04"),
        experiment_name="witness",
        display_name="by the official client",
    )
    result = streamed(name)
    ML.jobs.download(name, download_path=FOLDER / "all", all=True)
    ML.jobs.download(name, download_path=FOLDER / "one", output_name="made")
    got = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    job = ML.jobs.get(name)
    return {
        "said": result,
        "got": sorted(got),
        "display": job.display_name,
        "experiment": job.experiment_name,
    }


def registry() -> Any:
    return ended(
        run("true", environment="azureml://registries/azureml/environments/sklearn-1.5/labels/latest")
    )


def mpi() -> Any:
    name = run(
        "echo rank $OMPI_COMM_WORLD_RANK",
        instance_count=2,
        distribution=MpiDistribution(process_count_per_instance=2),
    )
    return {"name": name, "status": ended(name)}


def pytorch() -> Any:
    distribution = PyTorchDistribution(process_count_per_instance=2)
    name = run("echo rank $RANK of $WORLD_SIZE", instance_count=2, distribution=distribution, timeout=600)
    return {"name": name, "status": ended(name), "timeout": ML.jobs.get(name).limits.timeout}


def singularity() -> Any:
    job = command(command="true", environment=Environment(image="ubuntu:22.04"), compute=CLUSTER)
    words = {"AISuperComputer": {"slaTier": "Basic", "priority": "High", "interactive": False}}
    job.resources = JobResourceConfiguration(
        instance_type="Singularity.ND40_v2g1", instance_count=1, properties=words
    )
    made = ML.jobs.create_or_update(job)
    return {"status": ended(made.name), "type": ML.jobs.get(made.name).resources.instance_type}


def archive() -> Any:
    name = run("true", tags={"kept": "no"})
    ended(name)
    ML.jobs.archive(name)
    archived = [job.name for job in ML.jobs.list(list_view_type=ListViewType.ARCHIVED_ONLY)]
    active = [job.name for job in ML.jobs.list()]
    ML.jobs.restore(name)
    return [name in archived, name in active, name in [job.name for job in ML.jobs.list()]]


def update() -> Any:
    name = run("true")
    job = ML.jobs.get(name)
    job.tags = {"colour": "blue"}
    job.display_name = "renamed"
    ML.jobs.create_or_update(job)
    found = [one.name for one in ML.jobs.list(tag="colour=blue")]
    return {"found": found == [name], "other": [one.name for one in ML.jobs.list(tag="colour=red")]}


def many() -> Any:
    names = [run("true") for _ in range(7)]
    listed = [job.name for job in ML.jobs.list()]
    return {"all": set(names) <= set(listed), "newest first": listed[:7] == names[::-1]}


def cancel() -> Any:
    name = run("sleep 600")
    ML.jobs.begin_cancel(name).result()
    return status_of(name)


def delete() -> Any:
    name = run("true")
    ended(name)
    ML.jobs.begin_delete(name).result()
    return name in [job.name for job in ML.jobs.list()]


def failing() -> Any:
    try:
        streamed(run("echo before the end; exit 4"))
    except Exception as error:
        return str(error)
    return "no error"


def datastores() -> Any:
    secret = AccountKeyConfiguration(account_key=KEY)
    made = AzureBlobDatastore(name="mine", account_name="dummytwo", container_name="mine", credentials=secret)
    ML.datastores.create_or_update(made)
    names = [one.name for one in ML.datastores.list()]
    got = ML.datastores.get("mine", include_secrets=True)
    return {
        "default": ML.datastores.get_default().name,
        "names": names,
        "key": got.credentials.account_key == KEY,
    }


def computes() -> Any:
    found = {one.name: one.type for one in ML.compute.list()}
    return {
        "found": found,
        "size": ML.compute.get("cpu-cluster").size,
        "nodes": len(list(ML.compute.list_nodes("cpu-cluster"))),
    }


def workspaces() -> Any:
    return {
        "all": [one.name for one in ML.workspaces.list()],
        "account": ML.workspaces.get(WORKSPACE).storage_account,
    }


def environments() -> Any:
    return ML.environments.get("sklearn-1.5", label="latest").version


def services() -> Any:
    keys = SshJobService(ssh_public_keys=(FOLDER / "key.pub").read_text())
    name = run("sleep 600", services={"my_ssh": keys})
    deadline = time.monotonic() + 120
    while (found := ML.jobs.show_services(name)) is None or not found["my_ssh"].endpoint:
        assert time.monotonic() < deadline, "no shell was opened"
        time.sleep(0.2)
    ML.jobs.begin_cancel(name).result()
    return {
        "type": found["my_ssh"].type,
        "endpoint": found["my_ssh"].endpoint,
        "status": found["my_ssh"].status,
    }


def audience(token: str) -> str:
    body = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(body + "=="))["aud"])


def managed_identity() -> Any:
    """As on a node, in the two ways that the service offers it."""
    found = []
    for address, secret in (("IDENTITY_ENDPOINT", "IDENTITY_HEADER"), ("MSI_ENDPOINT", "MSI_SECRET")):
        os.environ |= {address: os.environ[f"SIM_{address}"], secret: os.environ["SIM_NODE_SECRET"]}
        token = ManagedIdentityCredential().get_token("https://storage.azure.com/.default").token
        found.append(audience(token))
        del os.environ[address], os.environ[secret]
    return found


def device_code() -> Any:
    """The simulator grants the login at once; the message for the user is printed anyway."""
    messages: list[str] = []
    credential = DeviceCodeCredential(
        tenant_id=os.environ["AZURE_TENANT_ID"],
        authority=os.environ["AZURE_AUTHORITY_HOST"],
        disable_instance_discovery=True,
        prompt_callback=lambda url, code, ends: messages.append(f"{url} {code}"),
    )
    token = credential.get_token(f"{os.environ['AZURE_AUTHORITY_HOST']}/.default").token
    return {"said": messages, "audience": audience(token)}


def missing() -> Any:
    asked: dict[str, Callable[[], Any]] = {
        "job": lambda: ML.jobs.get("nobody"),
        "compute": lambda: run("true", compute="nowhere"),
        "environment": lambda: run("true", environment="nothing@latest"),
    }
    found = {}
    for what, ask in asked.items():
        try:
            ask()
        except Exception as error:
            found[what] = type(error).__name__
    return found


STEPS: list[Callable[[], Any]] = [
    *(code_and_data, registry, mpi, pytorch, singularity, archive, update, many, cancel, delete, failing),
    *(datastores, computes, workspaces, environments, services, managed_identity, device_code, missing),
]


def main() -> None:
    fields = {}
    for step in STEPS:
        try:
            fields[step.__name__] = step()
        except Exception as error:
            fields[step.__name__] = {"error": f"{type(error).__name__}: {error}"[:2000]}
    print(json.dumps(fields))


main()
