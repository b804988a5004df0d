"""gofer sends what the official SDK sends for the same job, field by field. No field differs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from azure.ai.ml import command
from azure.ai.ml.entities import JobResourceConfiguration
from azureml.backend.official import Official
from azureml.backend.records import plan_of, record, target
from azureml.backend.shape import Shape, base
from azureml.backend.shapes import SHAPES

from gofer.backends.azureml.environments import environment_body
from gofer.backends.azureml.options import Scale
from gofer.backends.azureml.plan import AzurePlan
from gofer.model.run import CodeOrigin

# The SDK is warned by its own libraries, thousands of times.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def official() -> Official:
    return Official()


def planned(shape: Shape) -> AzurePlan:
    options = dict(shape.options)
    if "scale" in options:
        options["scale"] = msgspec.convert(options["scale"], Scale)
    backend = target(**options)
    return plan_of(backend, record(backend, shape.job, array=shape.array))


def sdk_job(shape: Shape) -> Any:
    """The SDK's own job."""
    words = {**base(by_identity="identity" in shape.options), **shape.sdk}
    properties = words.pop("properties", None)
    name = words.pop("name")
    job = command(**words)
    job.name = name
    if properties is not None:
        assert isinstance(job.resources, JobResourceConfiguration)
        job.resources.properties = properties
    return job


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_the_body_is_the_official_one(
    official: Official, shape: Shape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the SDK looks for git there
    plan = planned(shape)
    sent = official.submit(sdk_job(shape))
    _, path, body = sent[-1]
    assert path == plan.body_input.workspace.job(plan.name(shape.row))
    assert json.loads(json.dumps(plan.body(shape.row))) == body


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_the_environment_is_the_official_one(official: Official, shape: Shape) -> None:
    plan = planned(shape)
    sent = official.submit(sdk_job(shape))
    made = [(path, body) for _, path, body in sent if "/environments/" in path]
    ours = [] if plan.image is None else [(plan.body_input.environment, environment_body(plan.image))]
    assert ours == made


def test_the_commit_is_recorded_as_by_the_official_client(
    official: Official, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-c", "user.name=dummy", "-c", "user.email=dummy@example.invalid", "-C", str(tmp_path)]
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dirt").write_text("x")
    shape = SHAPES[0]
    backend = target(**shape.options)
    code = CodeOrigin(folder=str(tmp_path), commit=head.stdout.strip(), branch="main", dirty=True)
    plan = plan_of(backend, msgspec.structs.replace(record(backend), code=code))
    assert plan.body(None) == official.submit(sdk_job(shape))[-1][2]
