"""Plans: pure, printable, the same for the same record; and what a target can never run is said at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from azureml.backend.records import plan_of, record, target

from gofer.backends.azureml.backend import AzureBackend
from gofer.backends.azureml.make import make
from gofer.backends.azureml.options import AzureOptions
from gofer.backends.azureml.plan import duration
from gofer.backends.kind import BackendContext
from gofer.errors import CheckFailed, UsageError
from gofer.model.job import Array, Job, JobFolder, Resources
from gofer.transport.bundle import mark

GOLDEN = Path(__file__).parent / "golden"
KEY = "ssh-ed25519 AAAAdummy me@laptop"


def _plain() -> tuple[AzureBackend, dict[str, Any], Array | None]:
    job = {"env": {"A": "b c", "TOKEN": "${secret:token}"}, "tags": {"team": "x"}, "time_limit_s": 3600.0}
    return target(), job, None


def _nodes() -> tuple[AzureBackend, dict[str, Any], Array | None]:
    folders = {
        "data": JobFolder(store="az://data", path="me/data", mode="copy"),
        "output": JobFolder(store="az://data", path="me/output", mode="mount"),
    }
    backend = target(gpus_per_node=4, interactive=True, ssh_public_key=KEY, identity="managed")
    return backend, {"resources": Resources(gpus=8), "folders": folders}, None


def _cluster() -> tuple[AzureBackend, dict[str, Any], Array | None]:
    backend = target(
        platform="singularity", gpus_per_node=1, sla="basic", locations=("eastus",), image_version="pytorch"
    )
    return (
        backend,
        {"command": ("python", "train.py", "--lr", "{lr}")},
        Array(("lr",), (("1",), ("2",), ("3",))),
    )


@pytest.mark.parametrize("name", ["plain", "nodes", "cluster"])
def test_the_request_is_printed_as_it_is_sent(name: str) -> None:
    backend, job, array = {"plain": _plain, "nodes": _nodes, "cluster": _cluster}[name]()
    text = plan_of(backend, record(backend, job, array=array)).render()
    assert text.replace(mark(), "MARK") == (GOLDEN / f"{name}.txt").read_text()


def test_the_same_record_has_the_same_plan() -> None:
    backend, job, array = _nodes()
    made = record(backend, job, array=array)
    assert plan_of(backend, made).render() == plan_of(backend, made).render()


def test_private_values_are_in_no_plan() -> None:
    backend, job, _ = _plain()
    assert "secret:token" not in plan_of(backend, record(backend, job)).render()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "PT1S"),
        (60, "PT1M"),
        (3600, "PT1H"),
        (5401.5, "PT1H30M2S"),
        (86400, "P1D"),
        (90061, "P1DT1H1M1S"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_cannot_run_there() -> None:
    with pytest.raises(CheckFailed, match="does not say how many"):
        target().lay_out(Job(command=("x",), resources=Resources(gpus=1)))
    with pytest.raises(CheckFailed, match="6 GPUs do not divide into nodes of 4"):
        target(gpus_per_node=4).lay_out(Job(command=("x",), resources=Resources(gpus=6)))
    with pytest.raises(CheckFailed, match="launcher: hydra"):
        target().lay_out(Job(command=("x",), launcher="hydra"))


def test_shells_need_a_key(tmp_path: Path) -> None:
    backend = target(interactive=True, ssh_public_key=str(tmp_path / "none.pub"))
    with pytest.raises(CheckFailed, match=r"none\.pub"):
        backend.lay_out(Job(command=("x",)))
    (tmp_path / "none.pub").write_text(KEY + "\n")
    made = plan_of(backend, record(backend))
    assert made.body(None)["properties"]["services"]["ssh"]["properties"]["sshPublicKeys"] == KEY


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"workspace": None}, "`workspace`"),
        ({"compute": None}, "`compute`"),
        ({"platform": "singularity", "virtual_cluster": None}, "`virtual_cluster`"),
        ({"platform": "singularity", "instance_type": None}, "`instance_type`"),
    ],
)
def test_a_target_that_does_not_say_where(options: dict[str, Any], missing: str) -> None:
    with pytest.raises(UsageError, match=missing):
        target(**options)


@pytest.mark.parametrize(
    ("options", "name", "platform"),
    [
        ({"sla": "basic"}, "sla", "singularity"),
        ({"virtual_cluster": "vc"}, "virtual_cluster", "singularity"),
        ({"preemptible": False}, "preemptible", "itp"),
        ({"platform": "itp", "locations": ("eastus",)}, "locations", "singularity"),
        ({"platform": "singularity", "compute": "cpu"}, "compute", "aml"),
    ],
)
def test_what_means_nothing_on_a_platform_is_refused(
    options: dict[str, Any], name: str, platform: str
) -> None:
    with pytest.raises(UsageError, match=f"`{name}` of the target `eus` does not apply") as caught:
        target(**options)
    assert f"`platform: {platform}`" in (caught.value.hint or "")


def test_a_store_that_jobs_cannot_reach() -> None:
    options = AzureOptions(subscription_id="s", resource_group="g", workspace="w", compute="c")
    with pytest.raises(UsageError, match="cannot reach the store `s3://bucket`"):
        make(options, BackendContext("eus", "/nonexistent", "s3://bucket", None, True))


@pytest.mark.parametrize(
    ("options", "takes_back"),
    [
        ({}, False),
        ({"platform": "itp"}, False),
        ({"platform": "itp", "preemptible": True}, True),
        ({"platform": "singularity"}, False),
        ({"platform": "singularity", "sla": "standard"}, True),
        ({"platform": "singularity", "sla": "basic"}, True),
    ],
)
def test_outputs_go_as_they_are_written_where_nodes_may_be_taken_back(
    options: dict[str, Any], takes_back: bool
) -> None:
    backend = target(**options)

    def sync(job: dict[str, Any]) -> tuple[str, ...]:
        return plan_of(backend, record(backend, job)).request.sync

    assert sync({}) == (("*",) if takes_back else ())
    assert (sync({"sync": ()}), sync({"sync": ("*.pt",)})) == ((), ("*.pt",))
