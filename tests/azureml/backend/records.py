"""Records and targets for tests that ask nobody: what a run would be on a workspace that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gofer.backends.azureml.backend import AzureBackend
from gofer.backends.azureml.make import make
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.plan import AzurePlan
from gofer.backends.kind import BackendContext, BlobPlace
from gofer.model.job import Array, Job
from gofer.model.run import RunRecord

RUN = "r261116-091233-k9qd4x"
STORE = "az://runs/me/gofer"
PLACES = {
    STORE: BlobPlace("acct", "https://acct.blob.core.windows.net", "runs", "me/gofer"),
    "az://data": BlobPlace("acct", "https://acct.blob.core.windows.net", "data", ""),
    "az://other/deep": BlobPlace("else", "https://else.blob.core.windows.net", "other", "deep"),
}
WHERE = {"subscription_id": "s", "resource_group": "g", "workspace": "w"}
WORKSPACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


def target(queue_home: str = "/nonexistent", **options: Any) -> AzureBackend:
    """A target `eus`; what it is not told is a plain compute."""
    known: dict[str, Any] = {**WHERE, "compute": "cpu", "image": "ubuntu:22.04"}
    if options.get("platform") == "singularity":
        known |= {"compute": None, "virtual_cluster": "vc", "instance_type": "ND40_v2g1"}
    wanted = AzureOptions(**{**known, **options})
    around = BackendContext("eus", queue_home, STORE, None, True, None, PLACES.get, image=wanted.image)
    return make(wanted, around)


def plan_of(backend: AzureBackend, run: RunRecord) -> AzurePlan:
    return backend.plan(run, backend.prepare(run))


def record(
    backend: AzureBackend, job: Mapping[str, Any] | None = None, *, array: Array | None = None
) -> RunRecord:
    """A run of `python train.py`, laid out for the target."""
    made = Job(**{"command": ("python", "train.py", "--lr", "1e-3"), **(job or {})})
    return RunRecord(
        id=RUN,
        name=made.name or "train",
        target="eus",
        backend="azureml",
        job=made,
        layout=backend.lay_out(made),
        submitted_at=1_700_000_000.0,
        submitted_by="me@laptop",
        gofer="0.1.0",
        snapshot="f" * 64,
        array=array,
    )
