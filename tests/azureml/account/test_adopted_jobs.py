"""A name that is in no ledger: gofer asks the services of all targets in parallel, for a short time."""

from __future__ import annotations

import json
import time

import pytest
from home import Home
from services.azure import Azure
from services.azure import azure as azure

from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE, workspace_id

pytestmark = [pytest.mark.xdist_group("azure-adopting"), pytest.mark.timeout(900)]

OTHER = workspace_id(SUBSCRIPTION, GROUP, "other-ws")
YAML = """
target: local
targets:
  cpu: {{kind: azureml, {place}, workspace: {workspace}, compute: cpu-cluster, store: blob}}
  gpu: {{kind: azureml, {place}, workspace: {workspace}, compute: gpu-cluster, gpus_per_node: 4, store: blob}}
  other: {{kind: azureml, {place}, workspace: other-ws, compute: other-cluster, store: blob}}
stores:
  blob: {{url: az://{container}/me, account: {account}, endpoint: "{endpoint}", key: "${{env:DUMMY_KEY}}"}}
"""


class TwoWorkspaces:
    """Targets in two workspaces, neither of them the default one."""

    def __init__(self, home: Home, azure: Azure) -> None:
        self.home, self.azure = home, azure
        self.mark = f"m{time.time_ns()}"
        computes = [{"name": "other-cluster", "nodes": 1}]
        azure.admin("POST", "/workspaces", {"name": "other-ws", "computes": computes})
        azure.admin("DELETE", "/faults")
        account = azure.account()
        home.environ |= {**azure.env(), "DUMMY_KEY": account.key}
        text = YAML.format(
            place=f'subscription_id: "{SUBSCRIPTION}", resource_group: {GROUP}',
            workspace=WORKSPACE,
            container=azure.container(),
            account=account.name,
            endpoint=account.endpoint,
        )
        home.configure(text)
        home.gofer("target", "show", "cpu")  # who signs in and where the cloud is are known from here on

    def leave(self, name: str, workspace: str) -> str:
        """A job that gofer did not start."""
        self.azure.admin("POST", "/jobs", {"name": name, "workspace": workspace, "command": f"echo {name}"})
        return name

    def request_counts(self) -> dict[str, int]:
        """Requests for each resource of the workspaces' jobs since the last call of this method."""
        found: dict[str, int] = self.azure.admin("GET", "/counters")["requests"]
        self.azure.admin("DELETE", "/counters")
        return {name.rpartition("/workspaces/")[2]: count for name, count in found.items() if "/jobs" in name}


@pytest.fixture
def workspaces(home: Home, azure: Azure) -> TwoWorkspaces:
    return TwoWorkspaces(home, azure)


@pytest.mark.parametrize("whole", [True, False], ids=["name", "end"])
def test_a_job_is_found_wherever_it_is(workspaces: TwoWorkspaces, whole: bool) -> None:
    for workspace, target in ((workspaces.azure.workspace, "cpu"), (OTHER, "other")):
        name = workspaces.leave(f"x-{target}-{workspaces.mark}-{target}", workspace)
        found = workspaces.home.view(name if whole else f"{workspaces.mark}-{target}")
        assert (found["id"], found["target"], found["state"]) == (name, target, "succeeded")
    rows = json.loads(workspaces.home.gofer("list", "runs", "--json").out)
    assert {row["target"] for row in rows} == {"cpu", "other"}


def test_a_target_that_is_named_has_its_workspaces_jobs(workspaces: TwoWorkspaces) -> None:
    name = workspaces.leave(f"named-{workspaces.mark}", workspaces.azure.workspace)
    assert "knows no such job" in workspaces.home.gofer("-c", "other", "q", name, status=2).err
    workspaces.home.gofer("-c", "gpu", "q", name)
    assert workspaces.home.view(name)["target"] == "gpu"


def test_jobs_of_two_services_are_distinguished(workspaces: TwoWorkspaces) -> None:
    name = f"twin-{workspaces.mark}"
    for workspace in (workspaces.azure.workspace, OTHER):
        workspaces.leave(name, workspace)
    for word in (name, workspaces.mark):
        done = workspaces.home.gofer("q", word, status=2)
        assert f"`{word}` fits 2 jobs of 2 services:\n  cpu  {name}  Completed" in done.err
        assert f"\n  other  {name}  Completed" in done.err
        assert "hint: `-c cpu` names the target" in done.err
    assert workspaces.home.gofer("list", "runs", "--json").out == "[]\n"
    assert name in workspaces.home.gofer("-c", "other", "q", name).err
    assert workspaces.home.view(name)["target"] == "other"


def test_a_whole_name_goes_before_an_end(workspaces: TwoWorkspaces) -> None:
    workspaces.leave(f"longer-{workspaces.mark}", OTHER)
    workspaces.leave(workspaces.mark, workspaces.azure.workspace)
    assert workspaces.home.view(workspaces.mark)["target"] == "cpu"


def test_a_slip_of_the_pen_asks_each_service_once(workspaces: TwoWorkspaces) -> None:
    workspaces.request_counts()
    done = workspaces.home.gofer("q", "nosuchjob", status=2)
    assert "no run has the id or the name `nosuchjob`" in done.err
    assert "and the services of `cpu`, `other` know no such job" in done.err
    request_counts = workspaces.request_counts()
    assert request_counts, "the counters name no job"
    assert set(request_counts.values()) == {2}, (
        request_counts
    )  # by its name and by its end, in each of two workspaces


def test_a_service_that_fails_is_named_when_the_others_know_nothing(workspaces: TwoWorkspaces) -> None:
    name = workspaces.leave(f"here-{workspaces.mark}", workspaces.azure.workspace)
    workspaces.azure.fault("status", r"/workspaces/other-ws/jobs", status=403, count=50)
    try:
        found = workspaces.home.gofer("q", name)
        lost = workspaces.home.gofer("q", "nosuchjob", status=2).err
    finally:
        workspaces.azure.admin("DELETE", "/faults")
    assert "was not asked" not in found.err
    assert "warning: the service of `other` was not asked: the login has no right to do this" in lost
    assert "the service of `cpu` knows no such job" in lost


def test_a_service_that_is_silent_keeps_nobody(workspaces: TwoWorkspaces) -> None:
    """It would answer after longer than the test may take."""
    name = workspaces.leave(f"here-{workspaces.mark}", workspaces.azure.workspace)
    workspaces.azure.fault("delay", r"/workspaces/other-ws/jobs", seconds=100, count=50)
    try:
        assert workspaces.home.view(name)["target"] == "cpu"
        lost = workspaces.home.gofer("q", "nosuchjob", status=2).err
    finally:
        workspaces.azure.admin("DELETE", "/faults")
    assert "warning: the service of `other` was not asked: it did not answer within" in lost


def test_a_target_that_cannot_be_used_stops_no_search(workspaces: TwoWorkspaces) -> None:
    text = (workspaces.home.folder / "gofer.yaml").read_text()
    workspaces.home.configure(
        text.replace("compute: other-cluster, ", "").replace("target: local", "target: cpu")
    )
    name = workspaces.leave(f"here-{workspaces.mark}", workspaces.azure.workspace)
    assert workspaces.home.view(name)["target"] == "cpu"
    lost = workspaces.home.gofer("q", "nosuchjob", status=2).err
    assert "the service of `other` was not asked: the target `other` needs `compute`" in lost
