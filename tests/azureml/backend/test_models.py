"""Every body that gofer sends parses into the SDK's own generated models, with no field they do not know."""

from __future__ import annotations

import pytest
from azure.ai.ml._restclient.arm_ml_service import models
from azure.ai.ml._restclient.arm_ml_service._utils.model_base import _deserialize
from azureml.backend.records import PLACES, STORE
from azureml.backend.shape import Shape
from azureml.backend.shapes import SHAPES
from azureml.backend.test_official_bodies import planned
from azureml.sdk_fields import KNOWN, unknown

from gofer.backends.azureml.datastores import datastore_body
from gofer.backends.azureml.environments import environment_body
from gofer.core.store_spec import StoreSpec

# The SDK is warned by its own libraries, thousands of times.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_jobs(shape: Shape) -> None:
    parsed = _deserialize(models.JobBase, planned(shape).body(shape.row))
    assert isinstance(parsed.properties, models.CommandJob)
    assert set(unknown(parsed)) <= KNOWN


@pytest.mark.parametrize("spec", [{"sas": "sv=1&se=2030-01-01T00:00:00Z&sig=dummy"}, {"identity": {}}])
def test_datastores(spec: StoreSpec) -> None:
    until = 1.0 if "sas" in spec else 0.0
    parsed = _deserialize(models.Datastore, datastore_body(PLACES[STORE], spec, until, "core.windows.net"))
    assert isinstance(parsed.properties, models.AzureBlobDatastore)
    wanted = models.SasDatastoreCredentials if until else models.NoneDatastoreCredentials
    assert isinstance(parsed.properties.credentials, wanted)
    assert list(unknown(parsed)) == []


def test_environments() -> None:
    parsed = _deserialize(models.EnvironmentVersion, environment_body("ubuntu:22.04"))
    assert parsed.properties.image == "ubuntu:22.04"
    assert list(unknown(parsed)) == []


def test_a_field_that_no_model_has_is_found() -> None:
    body = {"properties": {"jobType": "Command", "inputs": {"a": {"jobInputType": "uri_file", "wrong": 1}}}}
    assert list(unknown(_deserialize(models.JobBase, body))) == ["properties.inputs.a.wrong"]
