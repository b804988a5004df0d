"""The files of petctl, a tool for elastic PyTorch on Azure: its job, its machines, and what gofer remembers.

All are in `config/` of the project. `azure-pytorch-elastic.yaml` and `kubernetes.json` have the form of the
older tool, `petctl.json` is gofer's own; no file holds a secret.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from gofer.core.files import write_whole
from gofer.errors import ConfigError

FOLDER = "config"
DEFAULT_MASTER_VM = "Standard_DS1_v2"
DEFAULT_WORKER_VM = "Standard_NC6s_v3"
APP = "azure-pytorch-elastic"
_JOB = f"{APP}.yaml"
_POOLS = "kubernetes.json"
_STATE = "petctl.json"
_DOCKERFILE = "Dockerfile"
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)
_CODE, _DATA = "code", "data"


class PetJob(NamedTuple):
    """The training job: its name, how many workers it may have, its image and its command line."""

    name: str
    min_size: int = 1
    max_size: int = 1
    image: str = ""
    command: str = ""


class PetPools(NamedTuple):
    """The sizes of the machines, and the number of workers that `setup` starts."""

    master_vm: str = DEFAULT_MASTER_VM
    worker_vm: str = DEFAULT_WORKER_VM
    workers: int = 1


class PetCluster(msgspec.Struct, frozen=True):
    """The cluster that `setup` made, the GPUs of one of its workers, and its login without the secret."""

    subscription_id: str
    resource_group: str
    cluster: str
    pool: str
    gpus: int = 1
    client_id: str = ""
    tenant: str = ""


class PetState(msgspec.Struct, frozen=True):
    """What gofer remembers between two verbs. `uploads` has, by container, the name of what was sent last."""

    cluster: PetCluster | None = None
    account: str = ""
    endpoint: str = ""
    uploads: dict[str, str] = {}
    pull_secret: str = ""
    run: str = ""


class PetFiles:
    """The files of one project. ConfigError for a file that cannot be read or written."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER

    def job(self) -> PetJob:
        """The job that `configure` wrote; ConfigError when there is none."""
        document = self._yaml(_JOB)
        try:
            container = document["spec"]["template"]["spec"]["containers"][0]
            words = {one["name"]: str(one["value"]) for one in container["env"]}
            least, most = int(words["MIN_SIZE"]), int(words["MAX_SIZE"])
            return PetJob(words["JOB_NAME"], least, most, container.get("image") or "", container["args"][0])
        except (KeyError, IndexError, TypeError, ValueError):
            raise ConfigError(f"`{FOLDER}/{_JOB}` is no job of petctl", hint=_CONFIGURE) from None

    def write_job(self, job: PetJob) -> Path:
        """Write the job in the form of the older tool: a Job of Kubernetes."""
        return self._write(_JOB, yaml.safe_dump(_manifest(job), sort_keys=False))

    def pools(self) -> PetPools:
        """The machines that `configure` wrote; ConfigError when there are none."""
        document = self._json(_POOLS)
        try:
            properties = document["properties"]
            agents = properties["agentPoolProfiles"][0]
            return PetPools(properties["masterProfile"]["vmSize"], agents["vmSize"], int(agents["count"]))
        except (KeyError, IndexError, TypeError, ValueError):
            raise ConfigError(f"`{FOLDER}/{_POOLS}` names no machines", hint=_CONFIGURE) from None

    def write_pools(self, pools: PetPools) -> Path:
        """Write the machines in the form of aks-engine; other keys of an existing file stay."""
        is_there = (self.folder / _POOLS).exists()
        document: dict[str, Any] = self._json(_POOLS) if is_there else {"apiVersion": "vlabs"}
        properties = document.setdefault("properties", {})
        properties.setdefault("orchestratorProfile", {"orchestratorType": "Kubernetes"})
        properties.setdefault("masterProfile", {"dnsPrefix": APP}).update(count=1, vmSize=pools.master_vm)
        agents = properties.setdefault("agentPoolProfiles", [{"name": "worker"}])
        agents[0].update(count=pools.workers, vmSize=pools.worker_vm)
        return self._write(_POOLS, json.dumps(document, indent=2) + "\n")

    def state(self) -> PetState:
        """What was remembered; nothing when there is no file."""
        path = self.folder / _STATE
        try:
            return msgspec.json.decode(path.read_bytes(), type=PetState) if path.exists() else PetState()
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"cannot read `{FOLDER}/{_STATE}`: {error}", hint="remove it") from None

    def write_state(self, state: PetState) -> None:
        self._write(_STATE, msgspec.json.format(msgspec.json.encode(state)).decode() + "\n")

    def dockerfile_image(self) -> str:
        """The image that `config/Dockerfile` begins with; empty without such a file."""
        try:
            found = _FROM.search((self.folder / _DOCKERFILE).read_text())
        except (OSError, UnicodeDecodeError):
            return ""
        return found[1] if found else ""

    def _yaml(self, name: str) -> Mapping[str, Any]:
        try:
            document = yaml.safe_load(self._text(name))
        except yaml.YAMLError as error:
            raise ConfigError(f"`{FOLDER}/{name}` is not valid YAML: {error}", hint=_CONFIGURE) from None
        return document if isinstance(document, dict) else {}

    def _json(self, name: str) -> dict[str, Any]:
        try:
            document = json.loads(self._text(name))
        except ValueError as error:
            raise ConfigError(f"`{FOLDER}/{name}` is not valid JSON: {error}", hint=_CONFIGURE) from None
        return document if isinstance(document, dict) else {}

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ConfigError(f"there is no `{FOLDER}/{name}`", hint=_CONFIGURE) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read `{FOLDER}/{name}`: {error}") from None

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(str(path), text.encode())
        except OSError as error:
            raise ConfigError(f"cannot write `{os.path.join(FOLDER, name)}`: {error.strerror}") from None
        return path


_CONFIGURE = "`python petctl.py configure --name NAME --min_size 1 --max_size 5` writes it"


def training_command(uploads: Mapping[str, str]) -> str:
    """The command of the imagenet example, with the names under which its script and data were sent."""
    script = uploads.get(_CODE) or "main.py"
    script = script if script.endswith(".py") else f"{script}/main.py"
    data = uploads.get(_DATA) or "train"
    return f"python3 {_CODE}/{script} --input_path {_DATA}/{data}"


def _manifest(job: PetJob) -> dict[str, Any]:
    env = {"JOB_NAME": job.name, "MIN_SIZE": str(job.min_size), "MAX_SIZE": str(job.max_size)}
    container = {
        "name": "petimage",
        "image": job.image,
        "command": ["bash", "-c"],
        "args": [job.command],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"labels": {"app": APP}}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": APP, "labels": {"app": APP}},
        "spec": {"parallelism": job.max_size, "template": template},
    }
