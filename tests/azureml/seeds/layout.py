"""The files and the jobs that the older tools' documents speak of, on a simulator of the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data.seeds import CLUSTER, write_account, write_cluster
from home import Home
from services.azure import Azure
from unit.importers.printed import CLUSTERS, PHILLY

from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE

OLD_JOB = "jianfw_1563257309_60ce2fc7"
XT_JOB = "job123456"
PHILLY_JOB = "application_1564705084178_6873"
SHELL_JOB = "application_1562349962206_12410"
ACT_COMMAND = (
    "python aml_server.py --code_path /mnt/c --data_folder /mnt/d --command 'python train.py --data voc20'"
)
RANK_0 = "azureml-logs/70_driver_log_rank_0.txt"
OLD_LOGS = {
    RANK_0: "".join(f"trainer.py:138 do_train(): iter: {number}\n" for number in range(100, 43001, 100)),
    "azureml-logs/70_driver_log_rank_2.txt": "rank 2\n",
    "azureml-logs/55_batchai_execution-tvmps_e967_d.txt": "execution\n",
    "azureml-logs/55_batchai_stdout-job_prep-tvmps_3bbf_d.txt": "preparation\n",
}
XT_LOGS = {"user_logs/std_log.txt": "".join(f"epoch {number}\n" for number in range(10))}
COMPUTES = {"aml": "NC24RSV3", "c1": "C1", "c2": "C2", "eu": "EU", "we3v32": "WE3V32"}

TRAIN = """\
import os, sys
print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "of", os.environ["OMPI_COMM_WORLD_SIZE"], *sys.argv[1:])
print("NCCL_IB_DISABLE", os.environ["NCCL_IB_DISABLE"], "hosts", os.environ["AZ_BATCH_HOST_LIST"])
print("data", sorted(os.listdir("data")))
"""
XT_CONFIG = f"""\
external-services:
    {WORKSPACE}: {{type: "singularity", subscription-id: "{SUBSCRIPTION}", resource-group: "{GROUP}"}}
    sandboxaml: {{type: "aml", subscription-id: "{SUBSCRIPTION}", resource-group: "{GROUP}"}}
    xtstorage: {{type: "storage", provider: "azure-blob-21", name: "ACCOUNT", key: "$vault"}}
xt-services: {{storage: "xtstorage", target: "eus-v100"}}
compute-targets:
    eus-v100: {{service: "{WORKSPACE}", compute: "sim-vc", vm-size: "ND40_v2g1", location: "eastus", nodes: 1,
        sla: "premium"}}
    sandbox: {{service: "sandboxaml", compute: "cpu4", nodes: 1}}
general: {{workspace: "CONTAINER", experiment: "exper1"}}
"""
SECOND_WORKSPACE = "philly-sc2"
PHILLY_TARGETS = """\
target: wu1
targets:
  wu1:
    kind: azureml
    {where}
    workspace: {workspace}
    compute: NC24RSV3
    gpus_per_node: 4
    image: ubuntu:22.04
    store: runs
    ssh_public_key: {key}.pub
    job: {{env: {{NCCL_IB_DISABLE: '0'}}}}
  sc2:
    kind: azureml
    {where}
    workspace: {second}
    compute: sc2-cluster
    gpus_per_node: 4
    image: ubuntu:22.04
    store: runs
    ssh_public_key: {key}.pub
stores:
  runs: {{url: "az://{container}/gofer", account: {account}, endpoint: "{endpoint}",
    key: "${{secret:vigeastblob_account-key}}"}}
"""


class OlderToolHome(Home):
    """A project made with an older tool, and a service with the jobs of that tool."""

    def __init__(self, root: Path, azure: Azure) -> None:
        super().__init__(root)
        self.azure = azure
        self.accounts = [azure.account(name) for name in azure.keys]
        self.containers = [azure.container("seeds", account.name) for account in self.accounts]
        browser = _program(root / "bin/browser", f'printf "%s" "$1" > {root}/browsed')
        self.environ |= {**azure.env(), "BROWSER": f"{browser} %s"}

    # -- files

    def act(self) -> None:
        """`aux_data` as ACT's document has it, and the code that its lines run."""
        for name, compute in COMPUTES.items():
            account = "we3_account" if name == "we3v32" else "vigeastblob_account"
            write_cluster(self.folder, name, account, CLUSTER.replace("NC24RSV3", compute))
            self.azure.admin("POST", "/computes", {"name": compute, "nodes": 2, "gpus": 4})
        workspace = {"subscription_id": SUBSCRIPTION, "resource_group": GROUP, "workspace_name": WORKSPACE}
        (self.folder / "aux_data/aml/config.json").write_text(json.dumps(workspace))
        for at, stem in enumerate(("vigeastblob_account", "we3_account")):
            write_account(self.folder, stem, self._account(at))
        (self.folder / "train.py").write_text(TRAIN)

    def _account(self, at: int) -> str:
        """The file as the document shows it, and the one key more that an emulator needs."""
        one = self.accounts[at]
        text = f"account_name: {one.name}\naccount_key: {one.key}\nsas_token: null\n"
        return f"{text}container_name: {self.containers[at]}\nendpoint: {one.endpoint}\n"

    def xt(self) -> None:
        """`xt_config.yaml`, imported, and the script that XT's line runs."""
        account = self.accounts[0]
        text = XT_CONFIG.replace("ACCOUNT", account.name).replace("CONTAINER", self.containers[0])
        (self.folder / "xt_config.yaml").write_text(text)
        (self.folder / "myscript.py").write_text("print('myscript was here')\n")
        self.gofer("config", "import", "xt_config.yaml")
        written = self.folder / "gofer.yaml"
        mark = f"account: {account.name}\n"
        written.write_text(written.read_text().replace(mark, f"{mark}    endpoint: {account.endpoint}\n"))
        self.keep("xtstorage-key", account.key)

    def philly(self) -> None:
        """Philly's files, imported for targets that the person has, called as Philly's clusters and in a
        workspace each: the service itself is gone.
        """
        self.azure.admin("POST", "/computes", {"name": "NC24RSV3", "nodes": 2, "gpus": 4})
        computes = [{"name": "sc2-cluster", "nodes": 2, "gpus": 4}]
        second = {"subscription": SUBSCRIPTION, "group": GROUP, "name": SECOND_WORKSPACE}
        self.azure.admin("POST", "/workspaces", {**second, "computes": computes})
        key = self.root / "id_test"
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(make, check=True, timeout=60)
        where = f'subscription_id: "{SUBSCRIPTION}"\n    resource_group: {GROUP}'
        names = {"where": where, "workspace": WORKSPACE, "second": SECOND_WORKSPACE}
        account = {"account": self.accounts[0].name, "endpoint": self.accounts[0].endpoint}
        text = PHILLY_TARGETS.format(**names, key=key, container=self.containers[0], **account)
        self.write("gofer.yaml", text)
        write_account(self.folder, "vigeastblob_account", self._account(0))
        # The nodes of the simulator are processes of this machine, which must not get a folder `/blob`.
        self.write("aux_data/configs/philly_vc.yaml", PHILLY.replace("/blob", f"{self.root}/blob"))
        self.write("aux_data/configs/multi_philly_vc.yaml", CLUSTERS)
        for name in ("train.py", "scripts/train.py"):
            self.write(name, TRAIN)
        files = [f"aux_data/configs/{name}.yaml" for name in ("philly_vc", "multi_philly_vc")]
        self.gofer("config", "import", *files)
        self.keep("vigeastblob_account-key", self.accounts[0].key)

    def keep(self, secret: str, value: str) -> None:
        argv = self.argv("secret", "set", secret)
        subprocess.run(
            argv, input=value, text=True, cwd=self.folder, env=self.environ, check=True, timeout=60
        )

    # -- what a line needs beforehand

    def need(self, what: str) -> None:
        """Make what a line of the documents takes for granted; KeyError when nobody knows how."""
        makers: dict[str, Callable[[], object]] = {
            "old job": lambda: self.leave(OLD_JOB, "jianfw", ACT_COMMAND, "Canceled", OLD_LOGS),
            "living old job": lambda: self.put_living(OLD_JOB, "jianfw", "NC24RSV3"),
            "xt job": lambda: self.leave(XT_JOB, "exper1", "python myscript.py", "Completed", XT_LOGS),
            "living xt job": lambda: self.put_living(XT_JOB, "exper1", "gpu-cluster"),
            "philly job": lambda: self.leave(PHILLY_JOB, "input", ACT_COMMAND, "Completed", OLD_LOGS),
            "living philly job": lambda: self.put_living(PHILLY_JOB, "input", "NC24RSV3"),
            "philly job with a shell": lambda: self.put_living(SHELL_JOB, "input", "itp-cluster"),
            "a cluster with nodes": self._use_a_cluster,
            "a run": lambda: self.gofer("submit", "--wait", "myscript.py"),
            "data here": self._write_voc20,
            "data in the store": lambda: self._upload(0, "voc20/a.txt", "voc20/b.txt", "coco/c.txt"),
            "data on we3v32": lambda: self._upload(1, "voc20/a.txt", "voc20/b.txt"),
        }
        makers[what]()

    def _write_voc20(self) -> None:
        for name in ("a.txt", "b.txt"):
            self.write(f"data/voc20/{name}", name)

    def _upload(self, at: int, *names: str) -> None:
        """Files of the mapped folder `data` in one of the containers, each holding its name."""
        client = self.azure.blob_client(self.accounts[at].name).get_container_client(self.containers[at])
        for name in names:
            client.upload_blob(f"path/to/data/{name}", name.encode())

    def _use_a_cluster(self) -> None:
        """XT's default target becomes one whose nodes can be listed."""
        names = {"subscription": SUBSCRIPTION, "group": GROUP, "name": "sandboxaml"}
        computes = [{"name": "cpu4", "nodes": 2}]
        self.azure.admin("POST", "/workspaces", {**names, "computes": computes})
        written = self.folder / "gofer.yaml"
        written.write_text(written.read_text().replace("target: eus-v100", "target: sandbox", 1))

    def leave(self, name: str, experiment: str, command: str, status: str, logs: dict[str, str]) -> None:
        """A job that another tool left behind, with two nodes of four processes where it was ACT's."""
        self.forget(name)
        many: dict[str, Any] = {
            "nodes": 2,
            "distribution": {"distributionType": "Mpi", "processCountPerInstance": 4},
        }
        body: dict[str, Any] = {
            "name": name,
            "experiment": experiment,
            "command": command,
            "status": status,
            "logs": logs,
        }
        if name != XT_JOB:
            body |= {**many, "compute": "NC24RSV3", "created": 1563257309.0}
        self.azure.admin("POST", "/jobs", body)

    def forget(self, name: str) -> None:
        """The job of an earlier test, and its logs, which the service keeps of deleted jobs."""
        self.azure.arm("DELETE", f"/jobs/{name}")
        client = self.azure.blob_client(self.accounts[0].name)
        for one in client.list_containers():
            held = client.get_container_client(one.name)
            for blob in held.list_blobs() if not one.name.startswith("seeds") else ():
                if f"{name}/" in blob.name:
                    held.delete_blob(blob.name)

    def put_living(self, name: str, experiment: str, compute: str) -> None:
        """A job of somebody else's that runs."""
        self.forget(name)
        properties: dict[str, Any] = {
            "jobType": "Command",
            "command": f"sleep 300; {ACT_COMMAND}",
            "experimentName": experiment,
            "computeId": f"{self.azure.workspace}/computes/{compute}",
            "environmentId": f"{self.azure.workspace}/environments/sklearn-1.5/versions/1",
            "resources": {"instanceCount": 2},
            "distribution": {"distributionType": "Mpi", "processCountPerInstance": 4},
        }
        if name == SHELL_JOB:
            key = {"sshPublicKeys": (self.root / "id_test.pub").read_text()}
            properties |= {"services": {"ssh": {"jobServiceType": "SSH", "properties": key}}}
            properties["resources"] = {"instanceCount": 1, "instanceType": "gpu4"}
            del properties["distribution"]
        status, answer = self.azure.arm("PUT", f"/jobs/{name}", {"properties": properties})
        assert status < 300, answer
        self.azure.wait(name, "Running")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    # -- the result of a line

    def blobs(self, at: int = 0) -> dict[str, int]:
        """The blobs of one of the two containers, and their sizes."""
        client = self.azure.blob_client(self.accounts[at].name).get_container_client(self.containers[at])
        return {str(one.name): int(one.size or 0) for one in client.list_blobs()}

    def ended(self, out: str) -> dict[str, Any]:
        """The run that a submission printed the id of, once it has ended, with its log."""
        run_id = out.strip().splitlines()[-1]
        (found,) = self.wait(run_id)
        return {**found, "log": self.log(run_id)}

    def close(self) -> None:
        """Stop everything that a test started."""
        for name in (OLD_JOB, XT_JOB, PHILLY_JOB, SHELL_JOB):
            self.azure.arm("POST", f"/jobs/{name}/cancel")


def stubs(folder: Path) -> str:
    """A folder for PATH with the programs that the nodes of the documents have."""
    _program(folder / "nvidia-smi", "echo Tesla V100 rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE")
    _program(folder / "cmd", "echo cmd was here")
    _program(folder / "python", f'exec {sys.executable} "$@"')
    return f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _program(path: Path, line: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path
