"""The files of petctl: written in the form of the older tool, and read again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gofer.errors import ConfigError
from gofer.importers.petctl import PetFiles, PetJob, PetPools, training_command


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    job = PetJob("test_job", 1, 5, "registry.example/image:1", "python train.py --name 'a b'")
    PetFiles(tmp_path).write_job(job)
    assert PetFiles(tmp_path).job() == job
    document = yaml.safe_load((tmp_path / "config" / "azure-pytorch-elastic.yaml").read_text())
    assert (document["kind"], document["spec"]["parallelism"]) == ("Job", 5)


def test_the_keys_of_others_stay_in_the_file_of_machines(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    path = tmp_path / "config" / "kubernetes.json"
    path.write_text(json.dumps({"mine": 1, "properties": {"linuxProfile": {"adminUsername": "me"}}}))
    PetFiles(tmp_path).write_pools(PetPools("Standard_D4s_v5", "Standard_NC4as_T4_v3", 3))
    found = json.loads(path.read_text())
    assert (found["mine"], found["properties"]["linuxProfile"]) == (1, {"adminUsername": "me"})
    assert PetFiles(tmp_path).pools() == PetPools("Standard_D4s_v5", "Standard_NC4as_T4_v3", 3)


@pytest.mark.parametrize("text", ["", "[]", "spec: 1", "spec: {template: {}}", "a: [", "\0"])
def test_a_file_that_is_no_job_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "azure-pytorch-elastic.yaml").write_text(text)
    with pytest.raises(ConfigError):
        PetFiles(tmp_path).job()


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("FROM pytorch/pytorch:2\nRUN true\n", "pytorch/pytorch:2"),
        ("# FROM no\nfrom --platform=linux/amd64 a.example/b@sha256:1 AS base\n", "a.example/b@sha256:1"),
        ("RUN true\n", ""),
    ],
)
def test_the_image_of_a_dockerfile(tmp_path: Path, text: str, image: str) -> None:
    assert PetFiles(tmp_path).dockerfile_image() == ""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "Dockerfile").write_text(text)
    assert PetFiles(tmp_path).dockerfile_image() == image


def test_the_command_names_what_was_sent() -> None:
    assert training_command({}) == "python3 code/main.py --input_path data/train"
    uploads = {"code": "imagenet", "data": "photos"}
    assert training_command(uploads) == "python3 code/imagenet/main.py --input_path data/photos"


def test_the_example_trains_and_continues(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "examples" / "petctl" / "examples" / "imagenet" / "main.py"
    for name, pixel in (("dark", b"\x10\x10\x10"), ("light", b"\xf0\xf0\xf0")):
        (tmp_path / "train" / name).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "train" / name / f"{number}.ppm").write_bytes(b"P6 8 8 255\n" + pixel * 64)
    out = tmp_path / "out"

    def train(epochs: int) -> str:
        argv = [sys.executable, str(script), "--input_path", str(tmp_path / "train"), "--epochs", str(epochs)]
        env = {"GOFER_OUTPUT_DIR": str(out), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "6 images of 2 classes, 1 workers" in train(2)
    assert "continues after epoch 1" in train(4)
    assert [path.name for path in sorted(out.iterdir())] == [f"checkpoint-000{n}.json" for n in range(4)]
