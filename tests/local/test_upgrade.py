"""An older version of gofer and this one share a home on this machine: its queue, ledger and run folders."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from home import Home, until
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from upgrade.older_version import Pair, is_supervised_by, make_pair, take_source
from upgrade.suite import Upgrade, submit, until_log

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("upgrade-local")]
HELD = "echo $CUDA_VISIBLE_DEVICES; until [ -e {gate} ]; do sleep 0.1; done"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the older version's package is."""
    return take_source(tmp_path_factory.mktemp("older"))


def configured(root: Path) -> Home:
    """A home whose store lies beside it, so that another home can use the store too."""
    home = Home(root)
    (root / "shared").mkdir()
    home.environ["SHOWN"] = "seen"
    text = "targets: {local: {kind: local, gpus: 2, store: shared}}\n"
    home.configure(f"{text}stores: {{shared: {{url: 'file://{root}/shared'}}}}\n")
    return home


def closed(pair: Pair) -> None:
    """End what both homes have; fail if more than an idle supervisor is left."""
    pair.newer.close()
    pair.second.close()


class TestInAFolder(Upgrade):
    @pytest.fixture(params=["usual umask", "umask 002"])
    def pair(self, request: pytest.FixtureRequest, tmp_path: Path, source: Path) -> Iterator[Pair]:
        made = make_pair(configured(tmp_path), source, umask_002=request.param == "umask 002")
        yield made
        closed(made)


@pytest.mark.net
class TestInAnObjectStore(Upgrade):
    @pytest.fixture
    def pair(self, tmp_path: Path, source: Path, azurite: Azurite) -> Iterator[Pair]:
        account = azurite.one
        home = Home(tmp_path)
        home.environ["DUMMY_KEY"] = account.key
        where = f"url: az://{account.new_container()}/pre, account: {account.name}"
        blob = f'{{{where}, endpoint: "{account.endpoint}", key: "${{env:DUMMY_KEY}}"}}'
        home.configure(f"targets: {{local: {{kind: local, store: blob}}}}\nstores: {{blob: {blob}}}\n")
        made = make_pair(home, source)
        yield made
        closed(made)


@pytest.fixture
def pair(tmp_path: Path, source: Path) -> Iterator[Pair]:
    made = make_pair(configured(tmp_path), source)
    yield made
    closed(made)


def test_runs_of_both_versions_continue_under_an_older_supervisor(
    pair: Pair, source: Path, tmp_path: Path
) -> None:
    """The older supervisor may end at a request that it cannot read: this version's takes over."""
    older, newer, _ = pair
    gate = tmp_path / "gate"
    first = submit(older, "-n", "1", "sh", "-c", HELD.format(gate=gate))
    until_log(newer, first, "0\n")
    assert is_supervised_by(newer, source)
    second = submit(
        newer, "-n", "1", "--env", "S=${env:SHOWN}", "sh", "-c", f'echo "$S"; {HELD.format(gate=gate)}'
    )
    until_log(newer, second, "seen\n1\n")
    third = submit(newer, "-n", "2", "sh", "-c", "echo third")
    assert newer.view(third)["state"] == "queued"
    assert "GPU" in newer.gofer("why", third).out
    assert newer.gofer("ssh", first, "sh", "-c", "echo $GOFER_RUN_ID").out.strip() == first
    gate.touch()
    assert [run["state"] for run in newer.wait(first, second, third)] == ["succeeded"] * 3


@pytest.mark.parametrize("stopped", [False, True])
def test_a_supervisor_of_this_version_takes_over(
    pair: Pair, source: Path, tmp_path: Path, stopped: bool
) -> None:
    """The older supervisor dies; the new one takes over its running and its waiting runs."""
    older, newer, _ = pair
    gate = tmp_path / "gate"
    first = submit(older, "-n", "2", "--single", "sh", "-c", HELD.format(gate=gate))
    waiting = submit(
        older, "-n", "2", "--single", "--env", "S=${env:SHOWN}", "sh", "-c", 'echo "$S" $CUDA_VISIBLE_DEVICES'
    )
    until_log(newer, first, "0,1\n")
    assert is_supervised_by(newer, source)
    # An agent of the older version would start a supervisor of its own version, and a second supervisor of
    # the older version may wait for the lock: all of them are paused meanwhile.
    pid, agent = newer.supervisor(), agent_of(older, first)
    assert pid is not None
    paused = [one for one, words in newer.processes().items() if str(source) in words and one != pid]
    assert agent in paused
    send(paused, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    until(lambda: newer.supervisor() != pid, "the end of the older supervisor")
    submit(newer, "true")
    until(lambda: newer.supervisor() and not is_supervised_by(newer, source), "a supervisor of this version")
    send(paused, signal.SIGCONT)
    assert (newer.view(first)["state"], newer.view(waiting)["state"]) == ("running", "queued")
    if stopped:
        newer.gofer("abort", "-Q", first)
    gate.touch()
    ended = newer.wait(first, waiting)
    assert [run["state"] for run in ended] == ["cancelled" if stopped else "succeeded", "succeeded"]
    assert [len(run["attempts"]) for run in ended] == [1, 1]
    assert newer.log(waiting) == "seen 0,1\n"


def test_code_that_was_sent_is_known(pair: Pair) -> None:
    """The same code has the same snapshot, and the store gets no second pack."""
    older, newer, _ = pair
    for number in range(20):
        (older.folder / f"part_{number}.py").write_text(f"print({number})\n")
    first = older.gofer("submit", "-Q", "--wait", "--json", "python", "part_3.py")
    packs = sorted(os.listdir(newer.root / "shared/packs"))
    second = newer.gofer("submit", "-Q", "--wait", "--json", "python", "part_4.py")
    assert newer._parsed(first)["snapshot"] == newer._parsed(second)["snapshot"]
    assert sorted(os.listdir(newer.root / "shared/packs")) == packs


def send(pids: list[int], number: int) -> None:
    """Send a signal to those of the processes that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def agent_of(home: Home, run: str) -> int:
    """The pid of the agent of a run whose store lies beside the home."""
    events = home.root / f"shared/runs/{run}/attempts/1/node-0/events.jsonl"
    return next(int(one["pid"]) for one in map(json.loads, events.read_text().splitlines()) if "pid" in one)
