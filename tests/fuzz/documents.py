"""Areas of what a project's folder holds: settings, job files, files of older tools, scripts."""

from __future__ import annotations

import json
from random import Random

from fuzz.case import Case
from fuzz.mutation import damaged, document, encoded
from fuzz.templates import (
    ACCOUNT_FILE,
    BATCH_OPTIONS,
    JOB_FILES,
    OLDER,
    PROJECT_FILES,
    SETTINGS,
    WORKSPACE_FILE,
)
from fuzz.words import word


def settings(rng: Random) -> Case:
    argv = rng.choice(
        [
            ["config", "show"],
            ["config", "show", "--json"],
            ["list", "targets"],
            ["submit", "--dry-run", "true"],
            ["store", "list"],
            ["target", "show", rng.choice(["box", "lab", "cluster", "aml", "vc"])],
            ["store", "show", rng.choice(["shared", "blob", "s3", "gs"])],
            ["list", "runs"],
        ]
    )
    data = document(rng, SETTINGS)
    if rng.random() < 0.2:
        return Case(tuple(argv), {"gofer.yaml": document(rng, SETTINGS)}, {}, {}, {"config.yaml": data})
    return Case(tuple(argv), {"gofer.yaml": data})


def job_files(rng: Random) -> Case:
    files = {"job.yaml": document(rng, JOB_FILES), "t.csv": b"lr,x\n1,2\n"}
    behind = rng.choice([[], [], ["echo", "{lr}"]])
    return Case(("submit", "--dry-run", "--job", "job.yaml", *behind), files)


def importers(rng: Random) -> Case:
    """Files of older tools: one is wrong, and those that it names are right more often than not."""
    chosen = rng.choice(list(OLDER))
    files = {name: encoded_plainly(document) for name, document in (OLDER["account"], OLDER["workspace"])}
    name, value = OLDER[chosen]
    if chosen in ("account", "workspace"):
        files[OLDER["act"][0]] = encoded_plainly(OLDER["act"][1])
    elif rng.random() < 0.2:
        files.pop(rng.choice([ACCOUNT_FILE, WORKSPACE_FILE]))
    files[name] = document(rng, [value])
    if rng.random() < 0.1 and chosen == "act":
        files["aux_data/aml/base.yaml"] = document(rng, [value])
        files[name] = encoded(
            rng, {"_base_": rng.choice(["base.yaml", "aml.yaml", "./base.yaml", word(rng)])}
        )
    argv = rng.choice(
        [
            ["config", "import", name],
            ["config", "import", name, "--as", "lab"],
            ["config", "import", "--as", word(rng), name],
            ["config", "show"],
            ["list", "targets"],
            ["submit", "--dry-run", "true"],
            ["target", "show", "aml"],
        ]
    )
    return Case(tuple(argv), files)


def encoded_plainly(value: object) -> bytes:
    return json.dumps(value).encode()


def batch_scripts(rng: Random) -> Case:
    lines = ["#!/bin/bash"] if rng.random() < 0.9 else [f"#!{word(rng)}"]
    for _ in range(rng.randrange(1, 5)):
        option = rng.choice(BATCH_OPTIONS)
        if rng.random() < 0.7:
            place = rng.randrange(len(option) + 1)
            name, equals, _ = option.partition("=")
            option = rng.choice(
                [option[:place] + word(rng) + option[place:], f"{name}{equals}{word(rng)}", word(rng)]
            )
        lines.append(rng.choice(["#SBATCH ", "#SBATCH ", "#SBATCH\t", "# SBATCH "]) + option)
    lines += ["module load x", "srun python train.py $SLURM_ARRAY_TASK_ID", word(rng)]
    data = rng.choice(["\n", "\n", "\n", "\r\n"]).join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        data = damaged(rng, data)
    files = {"job.sbatch": data}
    target = []
    if rng.random() < 0.3:
        files["gofer.yaml"] = b"targets: {c: {kind: slurm, gpus_per_node: 4}}\n"
        target = ["-t", "c"]
    return Case(("submit", "--dry-run", *target, "job.sbatch", word(rng)), files)


def projects(rng: Random) -> Case:
    """Files of Python projects and of git that a submission looks at."""
    names = rng.sample(list(PROJECT_FILES), rng.randrange(2, 6))
    files = {name: PROJECT_FILES[name].encode() for name in names}
    wrong = rng.choice(names)
    files[wrong] = _wrong_text(rng, files[wrong])
    argv = rng.choice(
        [
            ["submit", "--dry-run", "python", "train.py"],
            ["submit", "--dry-run", "--packages", rng.choice(["auto", "uv", "pip", "conda"]), "true"],
            ["submit", "--dry-run", "--with-git", "true"],
            ["init"],
            ["init", "-t", "local"],
        ]
    )
    return Case(tuple(argv), files)


def _wrong_text(rng: Random, data: bytes) -> bytes:
    kind = rng.random()
    if kind < 0.3:
        return damaged(rng, data)
    lines = data.decode().split("\n")
    place = rng.randrange(len(lines))
    if kind < 0.6:
        lines[place] = (
            lines[place].partition("=")[0] + "=" + rng.choice([word(rng), "[" * 3000, '"x"', "1", "{a=1}"])
        )
    else:
        lines[place:place] = [rng.choice([word(rng), "[tool", "a.b.c = 1", "[[x]]", "x = '''", "[" * 3000])]
    return "\n".join(lines).encode("utf-8", "surrogatepass")
