"""The line that makes a run again holds every option that the run had."""

from __future__ import annotations

import shlex
from typing import cast

import msgspec
import pytest

from gofer.cli.commands.runs.submit import command as submit_command
from gofer.cli.request import SubmitOptions, build_request
from gofer.core.states import Reason
from gofer.model.job import Job, Resources
from gofer.model.layout import Layout
from gofer.model.run import CodeOrigin, RunRecord
from gofer.ops.submission.submit_line import RENDERED_APART, option_of, submit_line
from gofer.text import quote_command

FULL = Job(
    command=("sh", "-c", 'echo "$A"  b'),
    name="a name",
    resources=Resources(gpus=4, nodes=2, procs=3, cpus=5),
    multi_process=False,
    env={"A": "1 2", "TOKEN": "${env:TOKEN}", "KEY": "${secret:key}"},
    setup="pip list\ntrue",
    time_limit_s=90.0,
    grace_s=2.5,
    retries=2,
    retry_on=(Reason.PREEMPTED, Reason.SIGNAL),
    priority=-1,
    tags={"x": "1", "plain": ""},
    sync=("ck/*",),
    launcher="mpi",
    rank_variables="never",
    include=("data/labels/",),
)


def record(job: Job, *, code: bool = True) -> RunRecord:
    return RunRecord(
        id="r261118-000000-abcdef",
        name="x",
        target="the lab",
        backend="local",
        job=job,
        layout=Layout(nodes=1, gpus_per_node=0, procs_per_node=1, cpus_per_proc=1),
        submitted_at=0.0,
        submitted_by="me@here",
        gofer="0",
        snapshot="0" * 64 if code else None,
        code=CodeOrigin(folder="/x") if code else None,
    )


def test_every_option_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "not in the line")
    line = submit_line(record(FULL))
    assert "not in the line" not in line
    words = shlex.split(line)
    assert words[:2] == ["gofer", "submit"]
    given = submit_command.make_context("submit", words[2:]).params
    request = build_request(cast("SubmitOptions", given))
    assert (request.command, request.target, request.code) == (FULL.command, "the lab", True)
    defaults = msgspec.structs.asdict(Job(command=FULL.command))
    assert request.include == FULL.include
    wanted = {**msgspec.structs.asdict(FULL), **msgspec.structs.asdict(FULL.resources)}
    for field, value in msgspec.structs.asdict(request.flags).items():
        assert value == wanted[field] or (field in defaults and wanted[field] == defaults[field]), field


def test_every_field_of_a_job_has_an_option() -> None:
    options = {word for one in submit_command.params for word in one.opts}
    missing = {
        field
        for field in Job.__struct_fields__
        if field not in RENDERED_APART and option_of(field) not in options
    }
    assert not missing, "give them an option, or render them in gofer.ops.submission.submit_line"


def test_defaults_are_left_out_and_a_limit_can_be_replaced() -> None:
    plain = Job(command=("true",), time_limit_s=60.0)
    assert submit_line(record(Job(command=("true",)))) == "gofer submit -t 'the lab' true"
    assert submit_line(record(plain)) == "gofer submit -t 'the lab' --time-limit 60s true"
    assert submit_line(record(plain, code=False), time_limit="LONGER") == (
        "gofer submit -t 'the lab' --no-code --time-limit LONGER true"
    )
    none = Job(command=("true",), sync=())
    assert submit_line(record(none)) == f"gofer submit -t 'the lab' --sync {quote_command([''])} true"
