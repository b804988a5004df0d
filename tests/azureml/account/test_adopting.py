"""Names that nobody here knows: the services of all targets are asked, at once and not for long."""

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


class Room:
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

    def asked(self) -> dict[str, int]:
        """How often each thing of a workspace's jobs was asked for since the last call of this."""
        found: dict[str, int] = self.azure.admin("GET", "/counters")["requests"]
        self.azure.admin("DELETE", "/counters")
        return {name.rpartition("/workspaces/")[2]: count for name, count in found.items() if "/jobs" in name}


@pytest.fixture
def room(home: Home, azure: Azure) -> Room:
    return Room(home, azure)


@pytest.mark.parametrize("whole", [True, False], ids=["name", "end"])
def test_a_job_is_found_wherever_it_is(room: Room, whole: bool) -> None:
    for workspace, target in ((room.azure.workspace, "cpu"), (OTHER, "other")):
        name = room.leave(f"x-{target}-{room.mark}-{target}", workspace)
        found = room.home.view(name if whole else f"{room.mark}-{target}")
        assert (found["id"], found["target"], found["state"]) == (name, target, "succeeded")
    rows = json.loads(room.home.gofer("list", "runs", "--json").out)
    assert {row["target"] for row in rows} == {"cpu", "other"}


def test_a_target_that_is_named_has_its_workspaces_jobs(room: Room) -> None:
    name = room.leave(f"named-{room.mark}", room.azure.workspace)
    assert "knows no such job" in room.home.gofer("-c", "other", "q", name, status=2).err
    room.home.gofer("-c", "gpu", "q", name)
    assert room.home.view(name)["target"] == "gpu"


def test_jobs_of_two_services_are_told_apart(room: Room) -> None:
    name = f"twin-{room.mark}"
    for workspace in (room.azure.workspace, OTHER):
        room.leave(name, workspace)
    for word in (name, room.mark):
        done = room.home.gofer("q", word, status=2)
        assert f"`{word}` fits 2 jobs of 2 services:\n  cpu  {name}  Completed" in done.err
        assert f"\n  other  {name}  Completed" in done.err
        assert "hint: `-c cpu` names the target" in done.err
    assert room.home.gofer("list", "runs", "--json").out == "[]\n"
    assert name in room.home.gofer("-c", "other", "q", name).err
    assert room.home.view(name)["target"] == "other"


def test_a_whole_name_goes_before_an_end(room: Room) -> None:
    room.leave(f"longer-{room.mark}", OTHER)
    room.leave(room.mark, room.azure.workspace)
    assert room.home.view(room.mark)["target"] == "cpu"


def test_a_slip_of_the_pen_asks_each_service_once(room: Room) -> None:
    room.asked()
    done = room.home.gofer("q", "nosuchjob", status=2)
    assert "no run has an id that begins or ends with `nosuchjob`" in done.err
    assert "and the services of `cpu`, `other` know no such job" in done.err
    asked = room.asked()
    assert asked, "the counters name no job"
    assert set(asked.values()) == {2}, asked  # by its name and by its end, in each of two workspaces


def test_a_service_that_fails_is_named_when_the_others_know_nothing(room: Room) -> None:
    name = room.leave(f"here-{room.mark}", room.azure.workspace)
    room.azure.fault("status", r"/workspaces/other-ws/jobs", status=403, count=50)
    try:
        found = room.home.gofer("q", name)
        lost = room.home.gofer("q", "nosuchjob", status=2).err
    finally:
        room.azure.admin("DELETE", "/faults")
    assert "was not asked" not in found.err
    assert "warning: the service of `other` was not asked: the login has no right to do this" in lost
    assert "the service of `cpu` knows no such job" in lost


def test_a_service_that_is_silent_keeps_nobody(room: Room) -> None:
    """It would answer after longer than the test may take."""
    name = room.leave(f"here-{room.mark}", room.azure.workspace)
    room.azure.fault("delay", r"/workspaces/other-ws/jobs", seconds=100, count=50)
    try:
        assert room.home.view(name)["target"] == "cpu"
        lost = room.home.gofer("q", "nosuchjob", status=2).err
    finally:
        room.azure.admin("DELETE", "/faults")
    assert "warning: the service of `other` was not asked: it did not answer within" in lost


def test_a_target_that_cannot_be_used_stops_no_search(room: Room) -> None:
    text = (room.home.folder / "gofer.yaml").read_text()
    room.home.configure(text.replace("compute: other-cluster, ", "").replace("target: local", "target: cpu"))
    name = room.leave(f"here-{room.mark}", room.azure.workspace)
    assert room.home.view(name)["target"] == "cpu"
    lost = room.home.gofer("q", "nosuchjob", status=2).err
    assert "the service of `other` was not asked: the target `other` needs `compute`" in lost
