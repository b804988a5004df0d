"""The lines of petctl's document, as printed, from an empty folder, against the simulated Azure."""

# ruff: noqa: W291

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aks.aks_home import AksHome
from home import Done, until

from simulators.azure.resources import SUBSCRIPTION
from simulators.azure.tokens import CLIENT, SECRET

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("petctl"), pytest.mark.timeout(900)]

CONFIGURE = 'python petctl.py configure --name "test_job" --min_size 1 --max_size 5'
SETUP = """
python petctl.py setup --dns_prefix azure-pytorch-elastic 
                       --rg "<resource_group>" 
                       --location "<location>" 
                       --subscription_id <subscription_id>
                       --client_id <service principal client id>
                       --client_secret <service principal client secret>                       
"""
UPLOAD = """
python petctl.py upload_storage --source_path <path to files>
                                --account_name <storage account name>
                                --container_name <name of blob container>
                                --sas_token <SAS token for blob storage>
"""
STORAGE = """
python petctl.py storage_secret --account_name <storage account name> 
                                --account_key "<storage account key>" 
"""
DOCKER = """
python petctl.py docker_secret --server <docker server> 
                                --username <docker username> 
                                --password <docker password>
"""
UPLOAD_CODE = """
python petctl.py --upload_storage --source_path ../examples/imagenet/main.py
                                  --account_name <storage account name>
                                  --container_name code
                                  --sas_token <sas token for blob storage>
"""
UPLOAD_DATA = """
python petctl.py --upload_storage --source_path <path to imagenet train folder>
                                  --account_name <storage account name>
                                  --container_name data
                                  --sas_token <sas token for blob storage>
"""
SCALE = """
python petctl.py scale --rg "<resource_group>"
                       --location "<location>"
                       --subscription_id <subscription_id>
                       --client_id <service principal client id>
                       --client_secret <service principal client secret>
                       --new_node_count <worker instances count>    
"""
DELETE = "python petctl.py delete_resources"


class PetHome(AksHome):
    """A person who has the document, a service principal, and nothing else. The folder is `azure`."""

    def __init__(self, home: AksHome) -> None:
        self.__dict__.update(home.__dict__)
        self.folder = home.root / "azure"
        self.folder.mkdir()
        (home.root / "examples" / "imagenet").mkdir(parents=True)
        script = Path(__file__).parents[2] / "examples" / "petctl" / "examples" / "imagenet" / "main.py"
        (home.root / "examples" / "imagenet" / "main.py").write_bytes(script.read_bytes())
        for name, pixel in (("dark", b"\x10\x10\x10"), ("light", b"\xf0\xf0\xf0")):
            (home.root / "train" / name).mkdir(parents=True)
            (home.root / "train" / name / "0.ppm").write_bytes(b"P6 8 8 255\n" + pixel * 64)
        account = home.azure.account()
        for variable in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"):
            self.environ.pop(variable, None)
        self.environ["AZURE_STORAGE_SERVICE_ENDPOINT"] = account.endpoint
        self.names = {
            "resource_group": self.group,
            "location": "eastus",
            "subscription_id": SUBSCRIPTION,
            "service principal client id": CLIENT,
            "service principal client secret": SECRET,
            "storage account name": account.name,
            "storage account key": account.key,
            "path to files": str(home.root / "examples"),
            "name of blob container": "files",
            "path to imagenet train folder": str(home.root / "train"),
            "docker server": "registry.example",
            "docker username": "me",
            "docker password": "dummy-password",
            "worker instances count": "2",
        }
        for container in ("files", "code", "data"):
            client = home.azure.blob_client().get_container_client(container)
            if not client.exists():
                client.create_container()

    def use_account(self, name: str, key: str) -> None:
        """Type this storage account from now on."""
        self.names |= {"storage account name": name, "storage account key": key}

    def type(self, text: str, *more: str, status: int = 0) -> Done:
        """Type a command of the document, with its placeholders filled in; its line breaks are layout."""
        line = " ".join(text.split("\n"))
        for name, value in {**self.names, **self._sas()}.items():
            line = line.replace(f'"<{name}>"', shlex.quote(value)).replace(f"<{name}>", shlex.quote(value))
        assert "<" not in line, line
        done = subprocess.run(
            ["bash", "-c", f"{line} {shlex.join(more)}"],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, f"{line}: {done.returncode}: {done.stderr}{done.stdout}"
        return Done(done.returncode, done.stdout, done.stderr)

    def _sas(self) -> dict[str, str]:
        from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

        sas = generate_account_sas(
            self.names["storage account name"],
            self.names["storage account key"],
            ResourceTypes(container=True, object=True),
            AccountSasPermissions(read=True, write=True, list=True, create=True, add=True, delete=True),
            "2099-01-01T00:00:00Z",
        )
        return {"SAS token for blob storage": sas, "sas token for blob storage": sas}

    def blobs(self, container: str) -> list[str]:
        return sorted(self.azure.blob_client().get_container_client(container).list_blob_names())

    def secrets_in_files(self) -> list[str]:
        """The files of the project that hold one of the secrets."""
        secrets = [
            self.names["storage account key"],
            SECRET,
            "dummy-password",
            self._sas()["SAS token for blob storage"][-20:],
        ]
        return [
            str(path)
            for path in self.folder.rglob("*")
            if path.is_file() and any(secret in path.read_text(errors="replace") for secret in secrets)
        ]


@pytest.fixture
def pet(home: AksHome) -> PetHome:
    made = PetHome(home)
    made.gofer("init", "--petctl")
    return made


def config(pet: PetHome, name: str) -> Any:
    return json.loads((pet.folder / "config" / name).read_text())


def test_configure_writes_the_job_and_the_machines(pet: PetHome) -> None:
    pet.type(CONFIGURE)
    properties = config(pet, "kubernetes.json")["properties"]
    assert properties["masterProfile"]["vmSize"] == "Standard_DS1_v2"
    assert properties["agentPoolProfiles"][0] == {"name": "worker", "count": 1, "vmSize": "Standard_NC6s_v3"}
    text = (pet.folder / "config" / "azure-pytorch-elastic.yaml").read_text()
    assert "test_job" in text and "parallelism: 5" in text
    assert (
        "are no bounds"
        in pet.type("python petctl.py configure --name a --size 0 --min_size 3 --max_size 1", status=2).err
    )


def test_without_a_verb_there_is_help(pet: PetHome) -> None:
    assert "upload_storage" in pet.type("python petctl.py").out
    assert "hint:" in pet.type("python petctl.py run_job", status=2).err
    assert "nothing to do" in pet.type(DELETE).err


def test_the_lines_of_the_document(pet: PetHome) -> None:
    pet.type(CONFIGURE)
    done = pet.type(SETUP)
    assert "Azure has withdrawn `Standard_NC6s_v3`" in done.err
    assert "stays in the history of your shell" in done.err
    cluster = pet.arm("azure-pytorch-elastic")
    pools = {pool["name"]: pool for pool in cluster["properties"]["agentPoolProfiles"]}
    assert (pools["gpu"]["count"], pools["gpu"]["vmSize"]) == (1, "Standard_NC4as_T4_v3")
    pet.type(UPLOAD)
    assert "examples/imagenet/main.py" in pet.blobs("files")
    pet.type(STORAGE)
    pet.type(DOCKER)
    pet.type(UPLOAD_CODE)
    pet.type(UPLOAD_DATA)
    assert "main.py" in pet.blobs("code")
    assert [name for name in pet.blobs("data") if name.startswith("train/")] == [
        "train/dark/0.ppm",
        "train/light/0.ppm",
    ]
    text = (pet.folder / "config" / "azure-pytorch-elastic.yaml").read_text()
    assert "python3 code/main.py --input_path data/train" in text
    settings = (pet.folder / "gofer.yaml").read_text()
    for word in ("kind: kubernetes", "cluster: azure-pytorch-elastic", "pull_secret: pet-docker-secret"):
        assert word in settings
    assert pet.secrets_in_files() == []
    pet.type(SCALE)
    assert pet.arm("azure-pytorch-elastic", "/agentPools/gpu")["properties"]["count"] == 2
    assert "--yes azure-pytorch-elastic" in pet.type(DELETE, status=2).err
    pet.type(DELETE, "--yes", "azure-pytorch-elastic")
    assert pet.arm("azure-pytorch-elastic") is None
    until(lambda: not pet.has_group(), "the group is gone")
    assert "nothing to do" in pet.type(DELETE).err
    assert "main.py" in pet.blobs("code")


def test_the_secrets_of_the_cluster_are_those_of_the_older_tool(pet: PetHome) -> None:
    pet.type(CONFIGURE)
    pet.type(SETUP)
    pet.type(STORAGE)
    pet.type(DOCKER)
    path = "/kubernetes/azure-pytorch-elastic/api/v1/namespaces/default/secrets"
    _, answer = pet.azure.ask("GET", path, token="dummy-token")
    found = {one["metadata"]["name"]: one for one in answer["items"]}
    assert set(found) == {"pet-blob-secret", "pet-docker-secret"}
    assert found["pet-blob-secret"]["stringData"]["azurestorageaccountname"] == pet.azure.account().name
    login = json.loads(found["pet-docker-secret"]["stringData"][".dockerconfigjson"])["auths"]
    assert login["registry.example"]["username"] == "me"
    pet.type(DOCKER)  # a second time replaces it


def test_a_secret_can_come_from_stdin(pet: PetHome) -> None:
    pet.type(CONFIGURE)
    pet.names["service principal client secret"] = "-"
    text = SETUP.strip() + f" < {shlex.quote(str(pet.folder / 'secret'))}"
    (pet.folder / "secret").write_text(f"{SECRET}\n")
    line = text.replace("\n", " ")
    names = {**pet.names}
    for name, value in names.items():
        line = line.replace(f'"<{name}>"', shlex.quote(value)).replace(f"<{name}>", shlex.quote(value))
    done = subprocess.run(
        ["bash", "-c", line], cwd=pet.folder, env=pet.environ, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "history of your shell" not in done.stderr


def test_the_script_of_somebody_else_stays(home: AksHome) -> None:
    (home.folder / "petctl.py").write_text("print('mine')\n")
    assert "is not a file of" in home.gofer("init", "--petctl", status=1).err
    assert (home.folder / "petctl.py").read_text() == "print('mine')\n"


def test_the_script_is_run_by_the_python_that_has_the_package(pet: PetHome) -> None:
    plain = next((path for path in ("/usr/bin/python3",) if os.path.exists(path)), "")
    assert plain, "the machine has no Python of its own"
    done = pet.type(f"{plain} petctl.py --help")
    assert "delete_resources" in done.out
