"""What the simulator answers has no field that the official SDK's own models do not know."""

from __future__ import annotations

import pytest
from azure.ai.ml._restclient.arm_ml_service import models
from azure.ai.ml._restclient.arm_ml_service._utils.model_base import _deserialize
from azure.ai.ml._restclient.runhistory import models as history
from azure.ai.ml._restclient.runhistory._utils.model_base import _deserialize as _deserialize_run
from azureml.sdk_fields import KNOWN, unknown
from services.azure import Azure
from services.azure_jobs import cluster_body, submit

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-answers")]
KINDS = {
    "/jobs": models.JobBase,
    "/computes": models.ComputeResource,
    "/datastores": models.Datastore,
    "/environments": models.EnvironmentContainer,
    "/environments/sklearn-1.5/versions": models.EnvironmentVersion,
    "/codes/me/versions": models.CodeVersion,
}


@pytest.fixture(scope="module", autouse=True)
def things(azure: Azure) -> None:
    """One of everything."""
    submit(azure, "failed", "exit 1", limits={"timeout": "PT1H"}, tags={"a": "b"}, properties={"c": "d"})
    distribution = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    outputs = {"o": {"jobOutputType": "uri_folder", "mode": "ReadWriteMount"}}
    inputs = {"i": {"jobInputType": "literal", "value": "1"}}
    submit(azure, "ranks", "true", distribution=distribution, inputs=inputs, outputs=outputs)
    keys = {"s": {"jobServiceType": "SSH", "properties": {"sshPublicKeys": "ssh-ed25519 AAAA dummy"}}}
    submit(azure, "shell", "true", services=keys)
    assert azure.arm("PUT", "/jobs/cluster", cluster_body(azure, "true"))[0] == 201
    code = {"properties": {"codeUri": f"{azure.blobs}/dummyone/code/me"}}
    assert azure.arm("PUT", "/codes/me/versions/1", code)[0] == 201
    for name in ("failed", "ranks", "shell", "cluster"):
        azure.wait(name)


@pytest.mark.parametrize("path", list(KINDS))
def test_resources_of_arm(azure: Azure, path: str) -> None:
    _, answer = azure.arm("GET", path)
    assert answer["value"]
    for one in answer["value"]:
        parsed = _deserialize(KINDS[path], one)
        assert set(unknown(parsed)) <= KNOWN, one


def test_the_workspace(azure: Azure) -> None:
    _, answer = azure.arm("GET", "")
    assert list(unknown(_deserialize(models.Workspace, answer))) == []


@pytest.mark.parametrize(("path", "kind"), [("", "Run"), ("/details", "RunDetails")])
@pytest.mark.parametrize("name", ["failed", "ranks"])
def test_run_history(azure: Azure, name: str, path: str, kind: str) -> None:
    _, answer = azure.ask("GET", f"/history/v1.0{azure.workspace}/runs/{name}{path}")
    assert list(unknown(_deserialize_run(getattr(history, kind), answer))) == []
