"""What really goes over the wire: each request of gofer's is one that the official SDK's models know."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.ai.ml._restclient.arm_ml_service import models
from azure.ai.ml._restclient.arm_ml_service._utils.model_base import _deserialize
from azure.ai.ml._restclient.runhistory import models as history
from azureml.backend.azure_home import AzureHome
from azureml.sdk_fields import KNOWN, unknown
from services.azure import Azure

from gofer.backends.azureml import names

pytestmark = [
    pytest.mark.net,
    pytest.mark.slow,
    pytest.mark.xdist_group("azure-wire"),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
MORE = """
  labelled: {{kind: azureml, {where}, compute: cpu-cluster, environment: "sklearn-1.5@latest", store: blob}}
  mine: {{kind: azureml, {where}, compute: cpu-cluster, image: "ubuntu:22.04", store: blob, identity: user}}
"""
# By what its path ends like, the model of a body.
BODIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    r"/jobs/[^/]+$": lambda body: _deserialize(models.JobBase, body),
    r"/datastores/[^/]+$": lambda body: _deserialize(models.Datastore, body),
    r"/environments/[^/]+/versions/[^/]+$": lambda body: _deserialize(models.EnvironmentVersion, body),
    r"/runs:query$": history.QueryParams,
    r"/experiments:query$": history.ExperimentQueryParams,
}
# The API version of ARM for each part of a path.
VERSIONS = {
    "/jobs": names.JOBS_API,
    "/datastores": names.DATASTORES_API,
    "/environments": names.ENVIRONMENTS_API,
    "/computes": names.COMPUTES_API,
    "/virtualClusters": names.VIRTUAL_CLUSTERS_API,
    "/instancetypeseries": names.VIRTUAL_CLUSTERS_API,
    "/workspaces": names.WORKSPACES_API,
}


def work(home: AzureHome) -> None:
    """One of everything that a person does with the service."""
    runs = [home.submit(*words, "true") for words in ([], ["-c", "gpu", "-n", "8"], ["-c", "vc", "-n", "1"])]
    runs += [home.submit("-c", name, "true") for name in ("labelled", "mine")]
    home.submit("-c", "itp", "-n", "4", "--each", "lr=1,2", "echo", "{lr}")
    for run in runs:
        home.gofer("wait", run)
        home.gofer("q", run)
    home.gofer("abort", home.submit("sleep", "600"))
    for words in ([], ["--status", "failed"], ["--experiment", "x"], ["--user", "me"], ["--tag", "gofer"]):
        home.gofer("list", "jobs", "--server", *words)
    for target in ("aml", "itp", "vc"):
        home.gofer("target", "show", target)
    home.gofer("list", "nodes")
    home.gofer("doctor", "azure", status=None)
    home.gofer("view", "portal", runs[0])


@pytest.fixture(scope="module")
def requests(tmp_path_factory: pytest.TempPathFactory, azure: Azure) -> list[dict[str, Any]]:
    home = AzureHome(tmp_path_factory.mktemp("wire"), azure, more=MORE)
    azure.admin("POST", "/request-log")
    work(home)
    found: list[dict[str, Any]] = azure.admin("GET", "/request-log")["requests"]
    home.close()
    return [one for one in found if "/oauth2/" not in one["path"]]


def test_every_body_is_one_of_the_sdks(requests: list[dict[str, Any]]) -> None:
    seen = set()
    for one in requests:
        if not one["body"]:
            continue
        known = [ending for ending in BODIES if re.search(ending, one["path"])]
        assert len(known) == 1, one
        (ending,) = known
        parsed = BODIES[ending](json.loads(one["body"]))
        assert set(unknown(parsed)) <= KNOWN, one
        seen.add(ending)
    assert seen == set(BODIES)


def test_every_request_names_the_version_of_its_resource(requests: list[dict[str, Any]]) -> None:
    versioned = [one for one in requests if one["path"].startswith("/subscriptions/")]
    for one in versioned:
        below = one["path"].partition("/workspaces/")[2] or one["path"]
        wanted = next(
            version for part, version in VERSIONS.items() if part in f"/{below}" or part == "/workspaces"
        )
        assert one["query"]["api-version"] == wanted, one
    assert len(versioned) > 30


def test_a_label_is_a_version_when_it_is_sent(requests: list[dict[str, Any]]) -> None:
    jobs = [
        json.loads(one["body"]) for one in requests if one["body"] and one["route"].endswith("/jobs/{name}")
    ]
    environments = {body["properties"]["environmentId"] for body in jobs}
    assert any(one.endswith("/environments/sklearn-1.5/versions/1") for one in environments), environments


def test_a_job_that_acts_as_a_person_brings_a_token_of_theirs(requests: list[dict[str, Any]]) -> None:
    puts = [one for one in requests if one["method"] == "PUT" and one["route"].endswith("/jobs/{name}")]
    by_person = ["UserIdentity" in one["body"] for one in puts]
    assert ["x-azureml-token" in one["headers"] for one in puts] == by_person
    assert any(by_person)


def test_no_secret_is_in_what_jobs_are_given(requests: list[dict[str, Any]]) -> None:
    """Signatures go to datastores alone."""
    with_signature = [one for one in requests if "sig=" in one["body"] or "sig=" in json.dumps(one["query"])]
    assert {one["route"].rpartition("/datastores/")[2] for one in with_signature} == {"{name}"}


def test_no_request_is_recorded_by_default(azure: Azure, tmp_path: Path) -> None:
    azure.arm("GET", "/jobs")
    assert azure.admin("GET", "/request-log") == {"requests": []}
