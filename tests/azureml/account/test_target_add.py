"""`gofer target add` for Azure ML: what the account has is listed, chosen and written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.azure_home import SUBSCRIPTION, AzureHome
from services.azure import Azure
from services.azure import azure as azure


@pytest.fixture
def person(tmp_path: Path, azure: Azure) -> Iterator[AzureHome]:
    made = AzureHome(tmp_path, azure)
    yield made
    made.close()


def _add(person: AzureHome, name: str, *words: str, status: int = 0) -> tuple[str, str]:
    done = person.gofer("target", "add", name, "--kind", "azureml", "--no-try", *words, status=status)
    return done.out, done.err


def test_a_compute_of_the_account(person: AzureHome) -> None:
    words = ["compute=gpu-cluster", "gpus_per_node=4", "store=blob", "image=ubuntu:22.04", "--project"]
    done = person.gofer("target", "add", "new", "--kind", "azureml", *words)
    out, err = done.out, done.err
    assert "gofer reaches " in out
    assert f"subscription: {SUBSCRIPTION} (Simulated subscription)" in err
    assert "workspace: sim-ws in the resource group sim-group" in err
    assert "compute: gpu-cluster: AmlCompute of " in err
    assert person.gofer("target", "show", "new").out.count("gpu-cluster") == 1
    out = person.gofer("submit", "-c", "new", "--no-code", "--dry-run", "-n", "4", "true").out
    assert "gpu-cluster" in out
    person.gofer("target", "rm", "new", "--project")


def test_the_store_of_the_workspace_is_used_where_none_is_named(person: AzureHome) -> None:
    out, _ = _add(person, "new", "compute=itp-cluster", "gpus_per_node=4", "--dry-run")
    assert "  new:\n    kind: azureml\n" in out and "    platform: itp\n    compute: itp-cluster\n" in out
    assert "stores:\n  new:\n    url: az://azureml-blobstore-" in out


def test_a_virtual_cluster_needs_its_instance_type(person: AzureHome) -> None:
    _, err = _add(person, "new", "compute=sim-vc", "--dry-run", status=2)
    assert "the target needs its instance type" in err and "instance_type=…" in err
    out, _ = _add(person, "new", "compute=sim-vc", "instance_type=ND40_v2g1", "--dry-run")
    assert "platform: singularity\n    virtual_cluster: sim-vc\n    instance_type: ND40_v2g1\n" in out


def test_what_the_account_does_not_have_is_refused(person: AzureHome) -> None:
    _, err = _add(person, "new", "compute=gpu-clustr", status=2)
    assert "there is no compute `gpu-clustr`" in err and "did you mean `gpu-cluster`?" in err
    _, err = _add(person, "new", status=2)
    assert "the target needs its compute or virtual cluster: " in err and "`gpu-cluster`" in err


def test_without_a_login_the_command_that_signs_in_is_named(person: AzureHome) -> None:
    person.environ = {name: value for name, value in person.environ.items() if "CLIENT" not in name}
    _, err = _add(person, "new", "compute=gpu-cluster", status=1)
    assert "gofer login" in err
