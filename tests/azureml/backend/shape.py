"""One job in two forms: gofer's target and job, and the arguments of the official SDK's `command`."""

from __future__ import annotations

from typing import Any, NamedTuple

from azure.ai.ml import Input, Output
from azure.ai.ml.entities import (
    Environment,
)
from azureml.backend.records import PLACES, RUN, STORE

from gofer.backends.azureml.names import datastore_name, environment_of_image
from gofer.model.job import Array, JobFolder
from gofer.transport.bundle import mark

KEY = "ssh-ed25519 AAAAdummy me@laptop"
UAI = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/me"
CLUSTERS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/virtualClusters"
FAR = CLUSTERS.replace("/s/", "/far/") + "/big"


class Shape(NamedTuple):
    """`options` and `job` are gofer's. `sdk` has the SDK's arguments that differ from the plain run."""

    name: str
    options: dict[str, Any]
    job: dict[str, Any]
    sdk: dict[str, Any]
    array: Array | None = None
    row: int | None = None


def uri(url: str, path: str, *, write: bool = False, by_identity: bool = False) -> str:
    place = PLACES[url]
    whole = "/".join(part for part in (place.prefix, path) if part)
    return f"azureml://datastores/{datastore_name(place, write=write, by_identity=by_identity)}/paths/{whole}"


def image(name: str) -> Environment:
    called, version = environment_of_image(name)
    return Environment(name=called, version=version, image=name)


def line(*more: str, python: str = "python3") -> str:
    return " ".join([python, "-E", "-s", "${{inputs.gofer_agent}}", "${{inputs.gofer_run}}", *more])


def base(*, by_identity: bool = False) -> dict[str, Any]:
    """The SDK's arguments of a plain run; nodes with an identity open the store by that identity."""
    return {
        "name": RUN,
        "command": line(),
        "display_name": "train",
        "description": "python train.py --lr 1e-3",
        "experiment_name": "me",
        "environment": image("ubuntu:22.04"),
        "compute": "cpu",
        "instance_count": 1,
        "tags": {"gofer": "0.1.0"},
        "inputs": inputs(by_identity=by_identity),
    }


def inputs(*, by_identity: bool = False, **more: Input) -> dict[str, Input]:
    agent_uri = uri(STORE, f"agents/{mark()}.zip", write=True, by_identity=by_identity)
    run_uri = uri(STORE, f"rooms/{RUN}", write=True, by_identity=by_identity)
    agent = Input(type="uri_file", path=agent_uri, mode="download")
    run = Input(type="uri_folder", path=run_uri, mode="download")
    return {"gofer_agent": agent, "gofer_run": run, **more}


def folder(store: str, path: str, mode: str, *, read_only: bool = False) -> JobFolder:
    return JobFolder(store=store, path=path, mode=mode, read_only=read_only)


def output(store: str, path: str, mode: str) -> Output:
    return Output(type="uri_folder", path=uri(store, path, write=True), mode=mode)


def supercomputer(**more: Any) -> dict[str, Any]:
    known = {"interactive": False, "slaTier": "Premium", "priority": "High"}
    return {"properties": {"AISuperComputer": {**known, **more}}}


def singularity(name: str, options: dict[str, Any], sdk: dict[str, Any], **job: Any) -> Shape:
    known = {"compute": f"{CLUSTERS}/vc", "instance_type": "Singularity.ND40_v2g1", **supercomputer()}
    return Shape(name, {"platform": "singularity", "gpus_per_node": 1, **options}, job, {**known, **sdk})
