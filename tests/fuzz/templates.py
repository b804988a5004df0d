"""Documents that gofer reads, in order: what the mutations begin with."""

from __future__ import annotations

from typing import Any

import yaml
from unit.importers import printed

JOB: dict[str, Any] = {
    "name": "n", "gpus": 2, "nodes": 2, "procs": 1, "cpus": 1, "env": {"A": "1", "B": "${env:HOME:-x}"},
    "setup": "true", "time_limit": "1h30m", "grace": "10s", "retries": 1, "retry_on": ["exit-code", "signal"],
    "priority": 3, "tags": {"a": "b"}, "sync": ["*.pt"], "keep": "2GiB", "outputs": ["out/*"],
    "multi_process": True, "rank_variables": "auto", "launcher": "spawn", "packages": "none",
}  # fmt: skip
SETTINGS: list[Any] = [
    {
        "target": "box",
        "targets": {"box": {"kind": "local", "gpus": 8, "gpus_per_node": 4, "store": "shared", "job": JOB}},
        "stores": {"shared": {"url": "file:///nonexistent/gofer"}},
        "job": JOB,
        "ignore": ["*.ckpt", "wandb/", "!x", "/a/**/b"],
        "include": ["data/"],
        "folders": {"data": {"store": "shared", "path": "d", "mode": "copy", "read_only": True}},
    },
    {
        "target": "lab",
        "targets": {
            "lab": {
                "kind": "ssh",
                "hosts": ["me@one", "two"],
                "gpus": 4,
                "folder": "/x",
                "python": "python3",
            },
            "cluster": {
                "kind": "slurm",
                "login": "h",
                "partition": "gpu",
                "account": "a",
                "qos": "q",
                "gres": "gpu:a100:4",
                "gpus_per_node": 4,
                "cpus_per_gpu": 4,
                "mem_per_gpu": "8G",
                "time": "1:00:00",
                "modules": ["cuda"],
                "constraint": "x",
                "exclude": "n1",
                "extra": ["--foo=1"],
                "signal": "USR1@60",
                "prelude": "true",
                "container": "i.sqsh",
                "container_mounts": ["/a:/b"],
                "requeue": True,
                "array_limit": 10,
            },
        },
    },
    {
        "target": "aml",
        "targets": {
            "aml": {
                "kind": "azureml",
                "platform": "aml",
                "subscription_id": "s",
                "resource_group": "g",
                "workspace": "w",
                "compute": "c",
                "image": "mine",
                "gpus_per_node": 4,
                "experiment": "e",
                "locations": ["eastus"],
                "preemptible": True,
                "shm_size": "4g",
                "store": "blob",
                "identity": "i",
                "scale": {"min": 1, "max": 4},
                "interactive": True,
                "patience": "1h",
                "folders": {"data": {"path": "p", "mode": "mount"}},
                "ignore": ["*.so"],
                "default_gpus": 1,
            },
            "vc": {
                "kind": "azureml",
                "platform": "singularity",
                "virtual_cluster": "v",
                "sla": "premium",
                "instance_type": "ND40",
                "image_version": "1",
                "workspace": "w",
                "priority": "high",
            },
        },
        "stores": {
            "blob": {"url": "az://c/p", "account": "a", "key": "${secret:k}", "hierarchical": True},
            "s3": {
                "url": "s3://b/p",
                "region": "r",
                "access_key": "k",
                "secret_key": "${env:S}",
                "endpoint": "http://127.0.0.1:9",
            },
            "gs": {"url": "gs://b/p", "key": "${file:key.json}"},
        },
        "dockers": {
            "mine": {
                "image": "me/env:1",
                "registry": "r.invalid",
                "sing_wrap": True,
                "sha256": "0a" * 32,
                "post_sing_steps": ["RUN x"],
                "username": "u",
                "password": "${secret:p}",
            }
        },
    },
]
JOB_FILES: list[Any] = [
    {**JOB, "command": ["echo", "{lr}", "{seed}"], "each": {"lr": [0.1, 0.01], "seed": "1..5"}},
    {"script": "echo hi\n", "target": "local", "gpus": 0, "time_limit": "2h", "tags": {"s": "1"}},
    {"command": "python train.py --lr {lr}", "array": [{"lr": 1, "x": "a"}, {"lr": 2, "x": "b"}]},
    {"command": ["true"], "array": "t.csv", "env": {"A": "${file:job.yaml}"}, "setup": "true"},
]

ACCOUNT_FILE = "aux_data/configs/vigeastblob_account.yaml"
WORKSPACE_FILE = "aux_data/aml/config.json"
# Files of older tools by name: (path, document).
OLDER: dict[str, tuple[str, Any]] = {
    "act": ("aux_data/aml/aml.yaml", yaml.safe_load(printed.CLUSTER)),
    "xt": ("xt_config.yaml", yaml.safe_load(printed.XT)),
    "philly": ("aux_data/configs/philly_vc.yaml", yaml.safe_load(printed.PHILLY)),
    "blobs": ("aux_data/configs/two.yaml", yaml.safe_load(printed.TWO_BLOBS)),
    "clusters": ("aux_data/configs/multi_philly_vc.yaml", yaml.safe_load(printed.CLUSTERS)),
    "toolkit 1": (".vscode/pai.json", yaml.safe_load(printed.TOOLKIT_1)),
    "toolkit 2": ("job.pai.json", yaml.safe_load(printed.TOOLKIT_2.replace("\t", " "))),
    "account": (ACCOUNT_FILE, yaml.safe_load(printed.ACCOUNT)),
    "workspace": (WORKSPACE_FILE, yaml.safe_load(printed.WORKSPACE)),
}
BATCH_OPTIONS = [
    *("-N 2", "--nodes=1-4", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=2", "--gres=gpu:a100:4"),
    *(
        "--gpus=8",
        "--gpus-per-node=a100:4",
        "--gpus-per-task=1",
        "--time=1-02:03:04",
        "-t 30",
        "--array=0-9:2%3",
    ),
    *("--array=1,3,5-7", "-J name", "--export=ALL,A=1", "--export=NONE", "--mem=4G", "--partition=gpu"),
    *("--signal=B:USR1@120", "--dependency=afterok:1", "--output=x-%j.out", "--exclusive", "--chdir=/x"),
    *(
        "--gpus-per-socket=2",
        "--sockets-per-node=2",
        "--mail-type=END",
        "--requeue",
        "hetjob",
        "--wrap='echo x'",
    ),
]
# Files of Python projects that a submission looks at.
PROJECT_FILES: dict[str, str] = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools", "setuptools-scm"]
[project]
name = "demo"
dynamic = ["version"]
dependencies = ["numpy>=1", "alpha @ file:./alpha"]
[tool.setuptools_scm]
root = ".."
[tool.uv]
dev-dependencies = ["x"]
[tool.uv.workspace]
members = ["packages/*", "a"]
exclude = ["b"]
[tool.uv.sources]
alpha = {path = "alpha", editable = true}
""",
    "uv.lock": """\
version = 1
requires-python = ">=3.11"
[[package]]
name = "numpy"
version = "2.0"
source = {registry = "https://registry.invalid/simple"}
[[package]]
name = "demo"
source = {editable = "."}
""",
    "requirements.txt": "numpy==1.0 ; python_version > '3'\n-r other.txt\n-e ./alpha\n"
    "--find-links x\n# c\nalpha @ git+ssh://h/x\n",
    "environment.yml": "name: x\nchannels: [conda-forge]\ndependencies: [python=3.11, pip, {pip: [numpy]}]\n",
    ".gitignore": "*.o\n!keep.o\n/build/\nsub/**/x\n[a-z]*\n\\#x\n",
    ".goferignore": "*.ckpt\ndata/\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n[include]\n\tpath = x\n",
    ".git/index": "DIRC\0\0\0\2\0\0\0\0",
    "train.py": "import numpy\n",
    "setup.py": "from setuptools import setup\nsetup()\n",
    ".venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.11.2\n",
}
