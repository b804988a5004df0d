"""GPUs of one machine between queues that know nothing of each other, and users who mean no good."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gofer.core import processes
from gofer.core.processes import ProcessIdentity
from gofer.queue.gpu_leases import LeaseFolderError, Leases

ANN, EVE = 61001, 61002


@pytest.fixture
def agent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for the agent of a run."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder for all users, as /dev/shm is; pytest's own folders are closed to others."""
    with tempfile.TemporaryDirectory(prefix="gofer-test-leases-") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


def identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    found = processes.identify(process.pid)
    assert found is not None
    return found


def identity_of_self() -> ProcessIdentity:
    found = processes.identify(os.getpid())
    assert found is not None
    return found


def files_of(uid: int, folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.lstat().st_uid == uid]


def only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


def test_a_gpu_has_one_holder_and_is_free_when_its_agent_is_dead(
    shared: Path, agent: subprocess.Popen[bytes]
) -> None:
    ann, bob = (Leases(str(shared), name) for name in ("ann", "bob"))
    who = identity(agent)
    assert ann.take({0: who, 1: who})
    assert bob.taken_by_others() == {0, 1}
    assert not bob.take({1: who, 2: who})
    assert bob.take({2: who})
    ann.release([0])
    assert bob.taken_by_others() == {1}
    agent.kill()
    agent.wait()
    assert bob.take({1: identity_of_self()})
    assert ann.taken_by_others() == {1}


def test_a_queue_with_more_gpus_lets_waiting_queues_with_fewer_go_first(shared: Path) -> None:
    me = identity_of_self()
    ann, bob = (Leases(str(shared), name) for name in ("ann", "bob"))
    assert ann.take({0: me, 1: me})
    bob.wait()
    ann.release([1])
    assert not ann.take({1: me})
    assert 3 in ann.taken_by_others()
    assert bob.take({1: me})
    assert ann.take({2: me})


def test_a_waiter_that_takes_nothing_does_not_hold_the_others_back_for_ever(shared: Path) -> None:
    me = identity_of_self()
    ann, eve = (Leases(str(shared), name) for name in ("ann", "eve"))
    assert ann.take({0: me})
    eve.wait()
    assert not ann.take({1: me})
    assert Leases(str(shared), "ann", yield_at_most_s=0.0).take({1: me})


def test_queues_that_claim_at_once_never_hold_one_gpu_twice(shared: Path) -> None:
    me, held = identity_of_self(), []
    start = threading.Barrier(4)

    def claim(name: str) -> None:
        queue = Leases(str(shared), name)
        start.wait()
        for gpu in range(20):
            if queue.take({gpu: me}):
                held.append(gpu)

    threads = [threading.Thread(target=claim, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == len(set(held))


def test_the_file_is_readable_for_all_and_writable_for_its_owner_at_any_umask(shared: Path) -> None:
    for mask in (0o077, 0o000):
        old = os.umask(mask)
        try:
            assert Leases(str(shared), "ann").take({0: identity_of_self()})
        finally:
            os.umask(old)
        assert only_file(shared).stat().st_mode & 0o777 == 0o644


def test_a_waiter_that_changes_the_name_of_its_queue_gains_no_time(shared: Path) -> None:
    me = identity_of_self()
    ann = Leases(str(shared), "ann", yield_at_most_s=0.3)
    assert ann.take({0: me})
    for number in range(1000):
        eve = Leases(str(shared), f"eve-{number}")
        eve.wait()
        if ann.take({1: me}):
            break
        assert eve.taken_by_others() == {0}, "and no longer waits"
        time.sleep(0.01)
    assert 1 <= number < 999


MALFORMED: list[Any] = [
    {"gpus": {"0": 1}, "waits_at": None, "queue": "x"},
    {"gpus": {"0": [1, 2, 3, 4, 5, 6]}, "waits_at": None, "queue": "x"},
    {"gpus": {}, "waits_at": "soon", "queue": "x"},
    {"gpus": [], "waits_at": None},
    {"gpus": {"-1": [1, 1], "99999": [1, 1]}, "waits_at": None, "queue": "x"},
    {"gpus": {"0": [1e400, 1]}, "waits_at": 1e999, "queue": "x"},
    [],
    7,
]


def test_a_malformed_file_of_another_queue_holds_nothing(shared: Path) -> None:
    ann = Leases(str(shared), "ann")
    me = identity_of_self()
    assert Leases(str(shared), "eve").take({0: me})
    path = only_file(shared)
    for content in [*(json.dumps(one).encode() for one in MALFORMED), b'{"gpus": {"0"', b"[" * 60_000, b""]:
        path.write_bytes(content)
        assert ann.taken_by_others() == set()
    path.write_bytes(b" " * 200_000)
    assert ann.taken_by_others() == set()


def test_links_pipes_and_hard_links_are_not_read(shared: Path, tmp_path: Path) -> None:
    ann = Leases(str(shared), "ann")
    assert Leases(str(shared), "eve").take({0: identity_of_self()})
    real = only_file(shared)
    moved = tmp_path / "moved"
    real.rename(moved)
    real.symlink_to(moved)
    assert ann.taken_by_others() == set()
    real.unlink()
    os.link(moved, f"{real}-x")
    assert ann.taken_by_others() == set()
    os.mkfifo(real)
    assert ann.taken_by_others() == set()


def test_a_link_to_a_lease_neither_frees_nor_holds_a_gpu(
    shared: Path, agent: subprocess.Popen[bytes]
) -> None:
    """Where /proc/sys/fs/protected_hardlinks is 0, every user can link the files of others."""
    mine, other = Leases(str(shared), "/a"), Leases(str(shared), "/b")
    assert mine.take({0: identity(agent)})
    lease = only_file(shared)
    os.link(lease, f"{lease}-x")
    assert not other.take({0: identity_of_self()})
    assert other.taken_by_others() == {0}
    assert mine.take({1: identity(agent)})
    assert other.taken_by_others() == {0, 1}
    os.link(lease, f"{lease}-y")
    mine.release([0, 1])
    assert other.taken_by_others() == set()
    assert other.take({0: identity_of_self()})


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(LeaseFolderError, match="sticky"):
        Leases(str(tmp_path), "ann")


CLAIM = """
import os, sys
from gofer.core import processes
from gofer.queue.gpu_leases import Leases
me = processes.identify(os.getpid())
print(Leases(sys.argv[1], "queue").take({0: me}), flush=True)
sys.stdin.read()
"""


def as_user(uid: int, *argv: str) -> subprocess.Popen[str]:
    command = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", *argv]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def claim_as(uid: int, folder: Path) -> subprocess.Popen[str]:
    return as_user(uid, sys.executable, "-c", CLAIM, str(folder))


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.root
def test_another_user_can_neither_overwrite_a_file_through_a_lease_nor_take_its_name(
    shared: Path, request: pytest.FixtureRequest
) -> None:
    """The attacker knows the victim's name in the folder and puts a link to a file of the victim there."""
    home = Path(tempfile.mkdtemp(prefix="gofer-test-home-"))
    request.addfinalizer(lambda: shutil.rmtree(home))
    home.chmod(0o711)
    precious = home / "bashrc"
    precious.write_text("echo mine\n")
    os.chown(precious, ANN, ANN)
    precious.chmod(0o600)
    with claim_as(ANN, shared) as first:
        assert answer(first) == "True"
        name = only_file(shared)
        first.communicate("")
    name.unlink()
    with as_user(EVE, "ln", "-s", str(precious), str(name)) as link:
        assert link.wait() == 0
    with claim_as(ANN, shared) as ann:
        assert answer(ann) == "True"
        assert precious.read_text() == "echo mine\n"
        assert precious.stat().st_mode & 0o777 == 0o600
        with claim_as(EVE, shared) as eve:
            assert answer(eve) == "False", "the lease of the victim still counts"
            eve.communicate("")
        (held,) = files_of(ANN, shared)
        with as_user(
            EVE, "sh", "-c", f"rm -f {held}; (: > {held}); mv {held} {shared}/x; cat {held}"
        ) as change:
            assert f'"0":[{ann.pid},' in change.communicate()[0], "nobody else can remove or change it"
        ann.communicate("")


@pytest.mark.root
def test_names_that_another_user_occupies_are_given_up_for_others(shared: Path) -> None:
    """Before the first lease, and when a lease was given back and its name is free for a moment."""
    me, ann = identity_of_self(), Leases(str(shared), "ann")
    for _ in range(3):
        assert ann.take({0: me})
        (name,) = files_of(os.getuid(), shared)
        ann.release([0])
        assert files_of(os.getuid(), shared) == []
        with as_user(EVE, sys.executable, "-c", CLAIM_NAME, str(name)) as eve:
            assert eve.wait() == 0
    assert Leases(str(shared), "ann").take({0: me})
    assert Leases(str(shared), "ann").take({1: me}), "the file is found again by a new supervisor"
    assert len(files_of(os.getuid(), shared)) == 1
    assert EVE in ann.ignored


CLAIM_NAME = """
import json, os, sys
if os.path.exists(sys.argv[1] + "-x"):
    os.mkdir(sys.argv[1])
else:
    open(sys.argv[1] + "-x", "w")
    stat = open("/proc/self/stat").read().split()
    agent = [os.getpid(), int(stat[21])]
    open(sys.argv[1], "w").write(json.dumps({"queue": "ann", "gpus": {"0": agent}, "waits_at": None}))
"""


@pytest.mark.root
def test_many_files_of_one_user_hide_none_of_another_and_are_named(shared: Path) -> None:
    assert Leases(str(shared), "bob").take({5: identity_of_self()})
    stem = str(only_file(shared)).rpartition("-")[0]
    fill = f"import os\nfor n in range(2000): os.symlink('/', {stem!r} + f'-{{n}}')"
    with as_user(EVE, sys.executable, "-c", fill) as eve:
        assert eve.wait() == 0
    ann = Leases(str(shared), "ann")
    assert ann.taken_by_others() == {5}
    assert "is ignored" in ann.ignored[EVE]


@pytest.mark.root
def test_nobody_holds_a_gpu_in_the_name_of_another(shared: Path, agent: subprocess.Popen[bytes]) -> None:
    mine = Leases(str(shared), "queue")
    assert mine.take({0: identity(agent)})
    path = only_file(shared)
    os.chown(path, EVE, EVE)  # as if that user had written it about a process that is not theirs
    assert Leases(str(shared), "other").taken_by_others() == set()
