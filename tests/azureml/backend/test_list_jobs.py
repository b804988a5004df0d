"""`gofer list jobs --server`: the service applies the filters, and gofer sends no unneeded request."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from azure.ai.ml._restclient.runhistory.models import PaginatedRunList, QueryParams
from azureml.backend.azure_home import AzureHome
from services.azure import Azure

from gofer.backends.azureml.jobs import filter_of
from gofer.backends.azureml.status import statuses_of
from gofer.backends.base import JobFilter
from gofer.core.states import State

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-listing")]

LIMIT = {"code": "UserError", "message": "Too long.", "innerError": {"code": "MaxRunDurationExceeded"}}


@pytest.fixture(scope="module", autouse=True)
def jobs(azure: Azure) -> None:
    """300 jobs of two experiments; of `many` three failed, one of them at its time limit."""
    made: list[dict[str, Any]] = [
        {"name": f"many-{at:03}", "experiment": "many", "created": 1.6e9 + at} for at in range(297)
    ]
    made[10] |= {"status": "Failed", "error": {"code": "UserError", "message": "it broke"}}
    made[20] |= {"status": "Failed", "created_by": "Zoe O'Brien"}
    made[30] |= {"status": "Canceled", "error": LIMIT}
    made[40] |= {"status": "Canceled"}
    made[50] |= {"status": "Running", "command": "python train.py --lr 1"}
    made[60] |= {"status": "Queued", "tags": {"amlk8s status": "running"}}
    others = [{"name": f"few-{n}", "experiment": "few é/x", "status": "Failed"} for n in range(3)]
    azure.admin("POST", "/jobs", {"jobs": made + others})


@pytest.fixture
def clerk(home: AzureHome) -> AzureHome:
    """A home with a filled cache, so that only the requests of the tested command are counted."""
    home.gofer("list", "jobs", "--server", "--last", "1", "--experiment", "many")
    home.azure.admin("DELETE", "/counters")
    return home


def listed(home: AzureHome, *words: str) -> list[str]:
    return [job["name"] for job in json.loads(home.gofer("list", "jobs", "--server", "--json", *words).out)]


def request_counts(azure: Azure) -> Counter[str]:
    """Requests by their last word: `runs:query`, `jobs`, `{name}`."""
    found = azure.admin("GET", "/counters")["requests"]
    return Counter({name.rpartition("/")[2]: count for name, count in found.items() if "/_sim/" not in name})


def test_one_question_for_three_of_three_hundred(clerk: AzureHome, azure: Azure) -> None:
    found = listed(clerk, "--experiment", "many", "--status", "failed")
    assert found == ["many-030", "many-020", "many-010"]
    assert request_counts(azure) == {"runs:query": 1, "{name}": 3}


def test_every_experiment_is_searched_when_none_is_named(clerk: AzureHome, azure: Azure) -> None:
    found = listed(clerk, "--status", "failed")
    assert sorted(found) == ["few-0", "few-1", "few-2", "many-010", "many-020", "many-030"]
    experiments = request_counts(azure)["runs:query"]
    assert request_counts(azure) == {"experiments:query": 1, "runs:query": experiments, "{name}": 6}
    assert experiments < 10


def test_states_of_several_words(clerk: AzureHome, azure: Azure) -> None:
    assert listed(clerk, "--experiment", "many", "--status", "queued,running") == ["many-060", "many-050"]
    assert listed(clerk, "--experiment", "many", "--status", "running") == ["many-060", "many-050"]
    assert listed(clerk, "--experiment", "many", "--status", "queued") == []
    assert listed(clerk, "--experiment", "many", "--status", "cancelled") == ["many-040"]
    assert request_counts(azure)["jobs"] == 0


def test_a_person(clerk: AzureHome, azure: Azure) -> None:
    assert listed(clerk, "--user", "Zoe O'Brien") == ["many-020"]
    assert request_counts(azure)["jobs"] == 0
    assert listed(clerk, "--user", "o'brien") == ["many-020"], "a part of the name does"


def test_an_experiment_of_an_odd_name_and_one_there_is_not(clerk: AzureHome) -> None:
    assert sorted(listed(clerk, "--experiment", "few é/x")) == ["few-0", "few-1", "few-2"]
    done = clerk.gofer("list", "jobs", "--server", "--experiment", "none")
    assert done.out.count("\n") <= 1 and "lists no such command job" in done.err


def test_the_newest_come_first_over_pages(clerk: AzureHome) -> None:
    found = listed(clerk, "--experiment", "many", "--last", "150", "--status", "succeeded")
    assert found == sorted(found, reverse=True)
    assert len(found) == 150 and found[0] == "many-296"


def test_a_service_that_takes_no_such_filter(clerk: AzureHome, azure: Azure) -> None:
    azure.fault("status", "runs:query", method="POST", count=9, status=400, code="UserError")
    found = listed(clerk, "--experiment", "many", "--status", "failed")
    # Only the history knows that a time limit was behind a cancel.
    assert found == ["many-020", "many-010"]
    assert request_counts(azure)["jobs"] >= 3


def test_what_an_answer_tells(clerk: AzureHome) -> None:
    words = ("list", "jobs", "--server", "--json", "--experiment", "many", "--status", "failed,running")
    found = {job["name"]: job for job in json.loads(clerk.gofer(*words).out)}
    assert found["many-010"]["error"] == "it broke (UserError)"
    assert found["many-050"]["command"] == "python train.py --lr 1"
    assert found["many-050"]["experiment"] == "many" and not found["many-050"]["is_ours"]


def test_the_gpus_of_other_computes_are_not_guessed(clerk: AzureHome, azure: Azure) -> None:
    azure.admin("POST", "/jobs", {"name": "elsewhere-1", "experiment": "elsewhere", "compute": "other"})
    words = ("list", "jobs", "--server", "--experiment", "elsewhere")
    (job,) = json.loads(clerk.gofer(*words, "--json").out)
    assert (job["compute"], job["gpus"]) == ("other", None)
    assert "COMPUTE" in clerk.gofer(*words).out


def test_of_gofers_own_jobs_the_persons_command_is_shown(home: AzureHome, azure: Azure) -> None:
    run = home.submit("sh", "-c", "echo 'a  b'; true")
    azure.wait(run)
    _, job = azure.arm("GET", f"/jobs/{run}")
    experiment = job["properties"]["experimentName"]
    for words in ([], ["--experiment", experiment]):
        text = home.gofer("list", "jobs", "--server", "--json", *words).out
        (found,) = [one for one in json.loads(text) if one["name"] == run]
        assert found["command"] == job["properties"]["description"]
        assert found["is_ours"] and "gofer_agent" not in found["command"] and "echo" in found["command"]


def test_a_tag_is_arms_to_narrow_by(clerk: AzureHome, azure: Azure) -> None:
    assert listed(clerk, "--tag", "amlk8s status", "--experiment", "many") == ["many-060"]
    assert request_counts(azure) == {"jobs": 1}


def test_the_question_and_the_answer_are_the_official_ones(azure: Azure) -> None:
    question = filter_of(JobFilter(states=frozenset({State.FAILED}), user="Zoe O'Brien"))
    assert question == (
        "(status eq 'Failed' or status eq 'Canceled') and createdBy/userName eq 'Zoe O''Brien'"
    )
    body = QueryParams(filter=question, order_by="createdUtc desc", top=5).as_dict()
    assert body == {"filter": question, "orderBy": "createdUtc desc", "top": 5}
    path = f"/history/v1.0{azure.workspace}/experiments/many/runs:query"
    _, answer = azure.ask("POST", path, body)
    result = PaginatedRunList(answer).value or []
    assert [(run.run_id, run.status, run.created_by and run.created_by.user_name) for run in result] == [
        ("many-020", "Failed", "Zoe O'Brien")
    ]


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ({State.SUCCEEDED}, ("Completed",)),
        ({State.QUEUED}, ("NotStarted", "Queued", "Scheduled")),
        ({State.RUNNING}, ("Queued", "Running", "Finalizing", "CancelRequested")),
        ({State.UNKNOWN}, ()),
        ({State.LOST}, ()),
        ({State.SUCCEEDED, State.LOST}, ()),
    ],
)
def test_the_services_words_for_states(states: set[State], words: tuple[str, ...]) -> None:
    assert statuses_of(states) == words
    wanted = filter_of(JobFilter(states=frozenset(states)))
    assert (wanted is None) == (words == ())
