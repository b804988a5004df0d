"""The JSON Schema says what the loader does, and the documentation says what both do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from unit.config.project import KINDS, ConfigProject

from gofer.backends.local.options import LocalOptions
from gofer.config.jobs import read_job_file
from gofer.config.layers import JOB_VARIABLES
from gofer.config.schema import job_schema, project_schema, render
from gofer.config.settings import load
from gofer.errors import ConfigError
from gofer.ops.settings.load import config_schema

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "configuration.md").read_text()

DIGEST = "0123456789abcdef" * 4
GOOD = [
    f"dockers: {{a: {{image: 'me/env:1', registry: reg.invalid, sha256: {DIGEST}, sing_wrap: true}}}}\n",
    "dockers: {a: {image: '${env:IMAGE}', post_sing_steps: ['a || b'], password: '${secret:x}'}}\n",
    "",
    "target: lab\ntargets: {lab: {kind: lab, login: me}}",
    "target:\ntargets:\nstores:\nfolders:\njob:\nignore:\n",
    "targets: {local: {gpus: 8, gpus_per_node: 4, store: default, job: {gpus: 1}}}",
    "targets: {a: {kind: lab, login: no, share: 1, exclusive: yes, hosts: [1, b], labels: {n: 1}, limit: x}}",
    "targets: {a: {kind: lab, login: '${env:X}', share: '${env:X}', partition: '${env:X}'}}",
    "targets: {a: {kind: lab, login: x, exclusive: '${env:X}', hosts: ['${env:X}']}}",
    "targets: {a: {kind: local, job: , store: }}",
    "stores: {s: {url: 'file:///s'}, t: {url: '${env:X}'}}\nfolders: {d: {path: p, store: s, mode: copy}}",
    "job: {name: 1, gpus: 0, nodes: 1, procs: 1, cpus: 1, setup: x, retries: 0, priority: -1000}",
    "job: {time_limit: 90, grace: 1h30m, retry_on: [signal], multi_process: no, launcher: mpi}",
    "job: {env: {A: 1, B: 0.10, C: no, D: null, E: '${secret:x}'}, tags: {a.b-c_1: 1, x: null}}",
    "job: {gpus: null, name: null, env: null, tags: null, launcher: null, retry_on: null, time_limit: null}",
    "ignore: ['*.pt', 1]",
    "targets: {a: {kind: local, ignore: ['*.pt', '${env:X}']}, b: {kind: local, ignore: }}",
]
BAD = [
    "dockers: {a: {image: 'a b'}}\n",
    "dockers: {a: {image: x, sha256: 0a1b}}\n",
    "dockers: {a: {image: x, password: written-out}}\n",
    "dockers: {a: {image: x, post_sing_steps: one}}\n",
    "tragets: {}",
    "job: {gpu: 1}",
    "job: {gpus: four}",
    "job: {gpus: '4'}",
    "job: {gpus: -1}",
    "job: {gpus: 1.5}",
    "job: {retries: 101}",
    "job: {priority: 1001}",
    "job: {nodes: 0}",
    "job: {name: ''}",
    "job: {multi_process: maybe}",
    "job: {launcher: spwan}",
    "job: {retry_on: signal}",
    "job: {retry_on: [signals]}",
    "job: {env: {A-B: c}}",
    "job: {env: {A: [1]}}",
    "job: {tags: {'a b': c}}",
    "job: {time_limit: [1]}",
    "job: [gpus]",
    "target: [a]",
    "ignore: '*.pt'",
    "targets: [a]",
    "targets: {a: local}",
    "targets: {'-a': {kind: local}}",
    "targets: {a: {kind: locl}}",
    "targets: {a: {kind: local, gpu: 1}}",
    "targets: {a: {kind: local, gpus: -1}}",
    "targets: {a: {kind: local, login: me}}",
    "targets: {a: {kind: local, job: {gpu: 1}}}",
    "targets: {a: {kind: local, ignore: '*.pt'}}",
    "targets: {a: {kind: lab, login: me, partition: tpu}}",
    "targets: {a: {kind: lab, login: [me]}}",
    "targets: {a: {kind: lab, login: me, exclusive: 1}}",
    "stores: {s: /data}",
    "stores: {s: {url: /data}}",
    "stores: {s: {url: 'file:///s', sas: x}}",
    "folders: {d: {path: p, mode: link}}",
    "folders: {d: {path: ''}}",
]
GOOD_JOBS = [
    "command: [python, 1]\ngpus: 1",
    "command: python train.py\neach: {lr: [0.1, no], seed: 1..3}",
    "script: |\n  echo\ntarget: local\narray: [{a: 1}, {a: x}]",
]
BAD_JOBS = [
    "command: {a: b}",
    "each: [lr]",
    "each: {lr: }",
    "array: [1]",
    "kind: local",
    "script: ''",
    "job: {}",
]


def errors(schema: dict[str, Any], text: str) -> list[str]:
    Draft202012Validator.check_schema(schema)
    return [error.message for error in Draft202012Validator(schema).iter_errors(yaml.safe_load(text) or {})]


@pytest.mark.parametrize("text", GOOD)
def test_schema_and_loader_take_the_same_files(project: ConfigProject, text: str) -> None:
    project.configure(text)
    project.load()
    assert errors(project_schema(KINDS), text) == []


@pytest.mark.parametrize("text", BAD)
def test_schema_and_loader_refuse_the_same_files(project: ConfigProject, text: str) -> None:
    project.refusal(text)
    assert errors(project_schema(KINDS), text) != []


@pytest.mark.parametrize("text", GOOD_JOBS)
def test_schema_and_reader_take_the_same_job_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    read_job_file(tmp_path / "job.yaml")
    assert errors(job_schema(), text) == []


@pytest.mark.parametrize("text", BAD_JOBS)
def test_schema_and_reader_refuse_the_same_job_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(ConfigError):
        read_job_file(tmp_path / "job.yaml")
    assert errors(job_schema(), text) != []


def test_every_key_of_a_job_has_a_description() -> None:
    properties = job_schema()["properties"]
    assert [key for key, value in properties.items() if not value.get("description")] == []


# -- the files under docs


def test_the_schema_under_docs_is_fresh() -> None:
    fresh = render(config_schema())
    hint = "stale: run `python -m gofer.config.schema > docs/gofer.schema.json`"
    assert (DOCS / "gofer.schema.json").read_text() == fresh, hint


def test_the_module_prints_the_schemas() -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "gofer.config.schema"]
    printed = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert json.loads(printed)["properties"].keys() == project_schema({})["properties"].keys()
    command.append("--job")
    printed = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert printed == render(job_schema())


def documented(heading: str) -> set[str]:
    """The names in the first column of the tables in one section."""
    section = re.split(rf"^##+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^##+ ", section, flags=re.MULTILINE)[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE))


def inner_keys(schema: dict[str, Any], section: str, name: str) -> Iterator[str]:
    entries = schema["properties"][section]["additionalProperties"]
    for kind in entries.get("anyOf", [entries]):
        yield from (f"{section}.{name}.{key}" for key in kind["properties"])


def test_the_page_and_the_schema_have_the_same_keys() -> None:
    schema = project_schema({"local": LocalOptions})
    job = set(schema["$defs"]["job"]["properties"])
    assert documented("Top of the file") == set(schema["properties"])
    assert documented("Defaults of jobs") == {f"job.{key}" for key in job}
    assert documented("Targets") == set(inner_keys(schema, "targets", "NAME"))
    stores_and_folders = {*inner_keys(schema, "stores", "NAME"), *inner_keys(schema, "folders", "NAME")}
    assert documented("Stores and folders") == stores_and_folders
    assert documented("Job files") == set(job_schema()["properties"]) - job


def test_the_page_names_every_variable() -> None:
    settings = {f"GOFER_{key.upper()}" for key in JOB_VARIABLES}
    assert documented("Variables of the environment") == settings | {
        "GOFER_TARGET",
        "GOFER_AZURE_PROFILE",
        "GOFER_HOME",
        "GOFER_WORK_DIR",
        "GOFER_SEARCH_TIME",
        "GOFER_DEBUG",
    }


def test_only_maps_have_no_variable() -> None:
    keys = set(project_schema({})["$defs"]["job"]["properties"])
    assert keys - set(JOB_VARIABLES) == {"elastic", "env", "tags"}


def test_the_examples_on_the_page_are_right(project: ConfigProject, tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    jobs = [block for block in blocks if block.startswith("# a job file")]
    groups = [block for block in blocks if block.startswith("target_groups:")]
    assert (len(blocks), len(jobs), len(groups)) == (3, 1, 1)
    for block in blocks:
        if block in jobs:
            (tmp_path / "job.yaml").write_text(block)
            assert read_job_file(tmp_path / "job.yaml").argv
        elif block in groups:
            (project.folder / "gofer.yaml").write_text(block)
            settings = load(
                project.folder, paths=project.paths, environ=project.environ, kinds={"local": LocalOptions}
            )
            assert settings.target_groups == {"philly": ("wu1", "sc2")}
        else:
            (project.folder / "gofer.yaml").write_text(block)
            kinds = {"local": LocalOptions}
            settings = load(project.folder, paths=project.paths, environ=project.environ, kinds=kinds)
            assert settings.target().options == LocalOptions(gpus=8, gpus_per_node=4)


def test_the_refusal_on_the_page_is_the_one_given(project: ConfigProject) -> None:
    message = re.search(r"error: (gofer\.yaml:7: .*)\n +hint: (.*)\n", PAGE)
    assert message
    text = "# 1\n# 2\n# 3\ntargets:\n  box:\n    kind: local\n    gpu_per_node: 4\n"
    error = project.refusal(text)
    assert (error.message, error.hint) == (message[1], message[2])
