"""Jobs that gofer did not start: what their words become. What is done with them is tested on a service."""

from __future__ import annotations

import pytest

from gofer.backends.base import ServiceJob
from gofer.core.states import State
from gofer.errors import UsageError
from gofer.ops.logs.log_copies import is_safe
from gofer.ops.logs.log_sources import choose_name
from gofer.ops.runs.adopt import command_of, record_of
from gofer.ops.runs.target_views import job_json, states_of

ACT = (
    "python aml_server.py --code_path $AZUREML_DATAREFERENCE_code --data_folder /mnt/d "
    "--command 'python train.py --data voc20'"
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (ACT, ("python", "train.py", "--data", "voc20")),
        ("python a.py --command ls", ("ls",)),
        ("python x.py --name 'two words'", ("python", "x.py", "--name", "two words")),
        ("python x.py | tee log", ("bash", "-c", "python x.py | tee log")),
        ("cd src && python x.py", ("bash", "-c", "cd src && python x.py")),
        ("A=1 python x.py", ("bash", "-c", "A=1 python x.py")),
        ("python server.py --command 'a; b'", ("bash", "-c", "a; b")),
        ("echo it's", ("bash", "-c", "echo it's")),
        ("python x.py --command", ("python", "x.py", "--command")),
        ("", ("bash", "-c", "")),
    ],
)
def test_the_words_of_a_command(line: str, words: tuple[str, ...]) -> None:
    assert command_of(line) == words


def test_the_record_of_a_job_of_eight_processes() -> None:
    job = ServiceJob(
        "jianfw_1563257309_60ce2fc7",
        State.CANCELLED,
        "Canceled",
        experiment="jianfw",
        user="J",
        command=ACT,
        nodes=2,
        procs_per_node=4,
        gpus=8,
        created_at=1563257309.0,
        tags={"a": "b"},
    )
    record = record_of(job, "aml", "azureml")
    assert (record.id, record.name, record.submitted_by, record.gofer) == (job.name, "jianfw", "J", "")
    assert (record.job.resources.gpus, record.job.resources.nodes, record.job.multi_process) == (
        8,
        None,
        True,
    )
    assert (record.layout.nodes, record.layout.procs_per_node, record.snapshot) == (2, 4, None)
    assert job_json(job)["created_at"] == "2019-07-16T06:08:29.000000Z"


def test_one_process_on_a_node_of_several_gpus_stays_one() -> None:
    job = ServiceJob("x", State.RUNNING, "Running", command="ls", gpus=4, procs_per_node=1)
    assert record_of(job, "aml", "azureml").job.multi_process is False
    plain = ServiceJob("x", State.RUNNING, "Running", command="ls", nodes=3)
    assert record_of(plain, "aml", "azureml").job.resources.nodes == 3


def test_the_gpus_of_nodes_that_the_target_does_not_know() -> None:
    many = ServiceJob("x", State.RUNNING, "Running", command="ls", nodes=2, procs_per_node=4, gpus=None)
    assert record_of(many, "aml", "azureml").job.resources.gpus == 8
    one = ServiceJob("x", State.RUNNING, "Running", command="ls", nodes=2, gpus=None)
    found = record_of(one, "aml", "azureml").job.resources
    assert (found.gpus, found.nodes) == (0, 2)


def test_states_in_anybodys_words() -> None:
    assert states_of(["Completed,failed"]) == {State.SUCCEEDED, State.FAILED}
    assert states_of(["Canceled"]) == {State.CANCELLED}
    assert states_of([]) == frozenset()
    with pytest.raises(UsageError, match="`compleated` is not the state"):
        states_of(["compleated"])


def test_which_of_the_services_logs_is_meant() -> None:
    logs = [f"user_logs/std_log_process_{one}.txt" for one in ("0", "1", "10")]
    logs += ["system_logs/x_1.log"]
    assert choose_name(logs, 0) == logs[0]
    assert choose_name(logs, 10) == logs[2]
    assert choose_name(logs, 7) is None
    assert choose_name([], 0) is None
    older = [f"azureml-logs/70_driver_log_{one}.txt" for one in range(3)]
    assert choose_name(older, 2) == older[2]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a//b", "a/../../b", "", "a/.", "a\0b"])
def test_names_that_leave_their_folder(name: str) -> None:
    assert not is_safe(name)
