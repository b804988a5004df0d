"""The rendezvous of nodes that are processes of their own, over each carrier: files and objects."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from services.fixtures import moto as moto
from services.moto import Moto

from gofer.core.store_spec import StoreSpec
from gofer.objects import open_objects
from gofer.objects.base import ObjectService

RUN = "r261116-091233-k9qd4x"
# One node: joins, says that it is prepared, publishes its exit record, and prints what it finds.
NODE = """
import json, os, sys
from gofer.core.launch import NodePlace
from gofer.node.rendezvous.base import EXIT
from gofer.node.rendezvous.folder import FolderRendezvous
from gofer.node.rendezvous.objects import ObjectRendezvous
from gofer.node.rendezvous.peer_messages import PeerMessages
from gofer.node.slurm.handoff import Handoff
from gofer.node.slurm.rendezvous import SlurmRendezvous
from gofer.node.slurm.share import SlurmShare
from gofer.node.watch import Watch

kind, node, state, RUN = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
at = json.loads(sys.argv[5])
nodes = 2
watch = Watch(-1, lambda: None, at_work=True)

def wait(seconds):
    watch.wait(-1, seconds)
    return watch.cause is None

def until(check):
    while not check():
        assert wait(0.05), "stopped"

if kind == "folder":
    os.makedirs(at + f"/runs/{RUN}/attempts/1/node-{node}", exist_ok=True)
    place = NodePlace(RUN, 1, node, nodes, 1, None, [], 0)
    rendezvous = FolderRendezvous(at, place, watch)
if kind == "handoff":
    share = SlurmShare(RUN, None, 1, node, nodes, "7", "7", "0", ["alpha", "beta"])
    rendezvous = SlurmRendezvous(Handoff(at), share)
if kind == "objects":
    messages = PeerMessages(at, RUN, RUN, None)
    rendezvous = ObjectRendezvous(messages, node, nodes, wait, hosts=["alpha", "beta"], master=None)
    if node == 0:
        rendezvous.propose(1, 4321)

membership = rendezvous.join()
if membership is None:
    print("null", flush=True)
    os._exit(0)
prepared = rendezvous.wait_until_prepared(lambda fd: wait(0.05))
before = rendezvous.watch()
record = {"state": state, "detail": None, "node": node}
rendezvous.publish(EXIT, record)
until(lambda: len(rendezvous.peers(EXIT)) == nodes - 1)
until(lambda: rendezvous.has_ended(1 - node))
found = {"membership": membership, "prepared": prepared, "before": before}
found.update(peers=rendezvous.peers(EXIT), after=rendezvous.watch())
if kind == "objects" and node == 0:
    assert [one["node"] for one in rendezvous.collect(record)] == [0, 1]
    rendezvous.announce_end(0)
    rendezvous.publish_sent(True)
    rendezvous.leave()
    assert rendezvous.is_sent(1)
    found["keys"] = sorted(messages.read_all())
    messages.write_end(json.dumps({"id": RUN, "state": "succeeded"}).encode())
elif kind == "objects":
    assert rendezvous.join() is None and rendezvous.current.over == 0
    rendezvous.publish_sent(True)
    rendezvous.leave()
else:
    rendezvous.leave()
found["left"] = rendezvous.membership
print(json.dumps(found), flush=True)
os._exit(0)
"""


KINDS = ("folder", "handoff", "objects")


class Start:
    """Starts nodes of a run on two nodes. Their `scancel` writes its arguments into scancel.log."""

    def __init__(self, folder: Path, store: StoreSpec) -> None:
        self.folder = folder
        self.store = store
        self.started: list[subprocess.Popen[str]] = []
        programs = folder / "bin"
        programs.mkdir()
        (programs / "scancel").write_text(f'#!/bin/sh\necho "$@" >> {folder}/scancel.log\n')
        (programs / "scancel").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def __call__(self, kind: str, node: int, state: str = "succeeded") -> subprocess.Popen[str]:
        at = json.dumps(self.store if kind == "objects" else str(self.folder))
        argv = [sys.executable, "-c", NODE, kind, str(node), state, RUN, at]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.started.append(process)
        return process


@pytest.fixture
def start(tmp_path: Path, moto: Moto) -> Iterator[Start]:
    keys: StoreSpec = {"access_key": moto.access_key, "secret_key": moto.secret_key, "region": moto.region}
    made = Start(tmp_path, {"kind": "s3", "endpoint": moto.endpoint, "bucket": moto.new_bucket(), **keys})
    yield made
    for process in made.started:
        process.kill()
        process.wait()


def node_folder(root: Path, node: int) -> Path:
    return root / "runs" / RUN / "attempts" / "1" / f"node-{node}"


def wait_for(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def found_by(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_find_each_other_and_read_their_records(kind: str, start: Start) -> None:
    first, second = start(kind, 0), start(kind, 1)
    zero, one = found_by(first), found_by(second)
    hosts, port, generation = zero["membership"]
    assert one["membership"] == [hosts, port, generation]
    assert len(hosts) == 2 and port > 0 and generation == 1
    assert (zero["prepared"], zero["before"], zero["after"]) == (True, None, None)
    assert zero["peers"] == {"1": {"state": "succeeded", "detail": None, "node": 1}}
    assert one["peers"] == {"0": {"state": "succeeded", "detail": None, "node": 0}}
    assert zero["left"] is None and one["left"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_node_is_named(kind: str, start: Start) -> None:
    first, second = start(kind, 0), start(kind, 1, "failed")
    zero, one = found_by(first), found_by(second)
    assert zero["after"].startswith("node 1 ")
    assert zero["peers"]["1"]["state"] == "failed" and one["peers"]["0"]["state"] == "succeeded"


def test_a_failure_in_a_slurm_job_terminates_its_step_once(tmp_path: Path, start: Start) -> None:
    first, second = start("handoff", 0), start("handoff", 1, "failed")
    found_by(first), found_by(second)
    assert (tmp_path / "scancel.log").read_text() == "--signal=TERM 7.0\n"


def test_a_node_that_is_stopped_while_it_waits_withdraws(tmp_path: Path, start: Start) -> None:
    alone = start("folder", 0)
    ready = node_folder(tmp_path, 0) / "ready.json"
    wait_for(ready.exists)
    alone.send_signal(signal.SIGTERM)
    assert found_by(alone) is None
    assert not ready.exists()


def test_files_in_the_run_folder(tmp_path: Path, start: Start) -> None:
    first, second = start("folder", 0), start("folder", 1)
    found_by(first), found_by(second)
    for node in (0, 1):
        folder = node_folder(tmp_path, node)
        assert sorted(path.name for path in folder.iterdir()) == ["exit.json", "prepared.json", "ready.json"]
        assert (folder / "prepared.json").read_bytes() == b"{}"
        ready = json.loads((folder / "ready.json").read_text())
        assert list(ready) == ["beat", "met", "port", "host", "address"] and ready["met"] is True


def test_files_in_the_handoff_folder(tmp_path: Path, start: Start) -> None:
    first, second = start("handoff", 0), start("handoff", 1, "failed")
    found_by(first), found_by(second)
    result = tmp_path / "told"
    names = ["run.1.exit-0", "run.1.exit-1", "run.1.failed", "run.1.ready-0", "run.1.ready-1"]
    assert sorted(path.name for path in result.iterdir()) == names
    assert list(json.loads((result / "run.1.ready-0").read_text())) == ["at"]
    assert (result / "run.1.failed").read_bytes() == b'{"node":1}'


def test_objects_in_the_store(moto: Moto, start: Start) -> None:
    first, second = start("objects", 0), start("objects", 1)
    zero, _ = found_by(first), found_by(second)
    names = ["beat.0", "beat.1", "exit.1.0", "exit.1.1", "here.1", "meet", "sent.0", "sent.1"]
    assert zero["keys"] == names
    objects = open_objects(start.store)
    assert isinstance(objects, ObjectService)
    left = [info.key for info in objects.list_beginning(f"told/{RUN}/run/")]
    meet = json.loads(objects.get(f"told/{RUN}/run/meet"))
    assert list(meet) == ["life", "attempt", "hosts", "port", "seen", "over"]
    gone = {f"told/{RUN}/run/{name}" for name in ("here.1", "beat.1", "sent.1")}
    assert not gone & set(left), "the node that leaves removes its messages"
