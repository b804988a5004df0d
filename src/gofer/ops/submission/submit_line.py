"""The `gofer submit` line that repeats a recorded job, for a person to edit and run. Pure.

It never contains the value of a secret: the record has references, and so has the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gofer.model.job import Job
from gofer.text import quote_command

if TYPE_CHECKING:
    from gofer.model.run import RunRecord

# Fields of a job whose option has another name, or that have no option. The current folder, the target, the
# script, the job file and the settings determine the latter again: the work folder, mapped folders, the
# options of a batch script, ignored files, and two limits of kept files.
RENDERED_APART = frozenset(
    {
        *("command", "command_launcher", "workdir", "folders", "sbatch", "resources", "multi_process"),
        *("env", "tags", "time_limit_s", "stdin", "function", "keep_group", "keep_most", "shell", "after"),
        *("ignore", "elastic"),
    }
)


def submit_line(
    record: RunRecord,
    *,
    time_limit: str | None = None,
    command: tuple[str, ...] = (),
    gpus: int | None = None,
) -> str:
    """All options of the run that differ from the default, then the command.

    `time_limit` and `gpus` replace the run's own values. `command` replaces the job's command, as for a row
    of an array. A run that is there to be entered is `gofer submit ssh`, and that of a
    function a line of Python.
    """
    job = record.job
    if job.function is not None:
        return _python_line(record)
    if gpus is not None:
        job = msgspec.structs.replace(job, resources=msgspec.structs.replace(job.resources, gpus=gpus))
    words = ["-t", record.target, *_resources(job), *_options(job)]
    limit = time_limit or (f"{job.time_limit_s:g}s" if job.time_limit_s is not None else None)
    if record.snapshot is None and record.code is None:
        words.append("--no-code")
    if job.stdin is not None:
        words.append("--stdin")
    if record.code is not None and record.code.git:
        words.append("--with-git")
    if limit is not None:
        words += ["--time-limit", limit]
    typed = ("ssh",) if job.shell else command or job.command
    return f"gofer submit {quote_command([*words, *typed])}"


def _python_line(record: RunRecord) -> str:
    """The line of Python for a function, whose arguments only the program that submitted it has."""
    job = record.job
    limit = None if job.time_limit_s is None else f"{job.time_limit_s:g}s"
    options = {
        "target": record.target,
        **{name: value or None for name, value in msgspec.structs.asdict(job.resources).items()},
        **{name: getattr(job, name) for name in ("setup", "packages", "wheels")},
        "time_limit": limit,
    }
    given = ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)
    return f"gofer.job({given}).submit({job.function.name if job.function else ''}, …)"


def _resources(job: Job) -> list[str]:
    asked, elastic = job.resources, job.elastic
    flags: dict[str, int | str | None] = {
        "-n": asked.gpus or None,
        "-N": asked.nodes if elastic is None else f"{elastic.min_nodes}:{elastic.max_nodes}",
        "--procs": asked.procs,
        "--cpus": asked.cpus,
        "--memory": asked.memory,
        "--gpu-type": asked.gpu_type,
    }
    words = [word for flag, value in flags.items() if value is not None for word in (flag, str(value))]
    return words if job.multi_process or job.command_launcher else [*words, "--single"]


def _options(job: Job) -> list[str]:
    """Options for fields that differ from the defaults: first those with the name of the field, then the
    others.
    """
    plain = Job(command=job.command)
    words: list[str] = []
    for field in Job.__struct_fields__:
        value = getattr(job, field)
        if field not in RENDERED_APART and value != getattr(plain, field):
            words += _option(option_of(field), value)
    words += [word for name, value in job.env.items() for word in ("-e", _variable(name, value))]
    words += [
        word for key, value in job.tags.items() for word in ("--tag", f"{key}={value}" if value else key)
    ]
    return words


def option_of(field: str) -> str:
    """The option of a field: `--retry-on` for `retry_on`, `--grace` for `grace_s`."""
    return f"--{field.removesuffix('_s').replace('_', '-')}"


def _option(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [name]
    if isinstance(value, float):
        return [name, f"{value:g}s"]
    if not isinstance(value, tuple):
        return [name, str(value)]
    if name == "--retry-on":
        return [name, ",".join(value)]
    return [word for one in value or ("",) for word in (name, str(one))]


def _variable(name: str, value: str) -> str:
    """An `-e` option. A variable that took its value from the shell is written without the value, to take it
    from there again.
    """
    return name if value == f"${{env:{name}}}" else f"{name}={value}"
