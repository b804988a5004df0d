"""Two unprivileged users on one machine with one GPU: one of them attacks the leases, the other submits.

Each user has a home of their own. Both see the same /dev/shm, a small one of this test, and a driver with one
GPU; nobody else on the machine sees either.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from home import Home, until

import gofer

ANN, EVE = 61001, 61002

pytestmark = pytest.mark.root

_MACHINE = """
mount -t tmpfs -o mode=755 test "$1"
for name in null zero full random urandom tty; do : > "$1/$name"; mount --bind "/dev/$name" "$1/$name"; done
mkdir -m 1777 "$1/shm"
: > "$1/nvidiactl"
ln -s /proc/self/fd "$1/fd"
mount --move "$1" /dev
echo ready
exec sleep 3600
"""
_ENTER = 'exec nsenter --mount --target={pid} --wdns="$PWD" -- "$@"'
SHOW = 'echo "gpu=$CUDA_VISIBLE_DEVICES uid=$(id -u)"'


class Machine(NamedTuple):
    """A view of this machine with a GPU, and a home there for each of two users."""

    pid: int
    ann: Home
    eve: Home
    shared: Path

    def attack(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A shell script of the attacker, to its end; it need not succeed."""
        return subprocess.run(
            [*self.eve.prefix, "sh", "-c", script, "sh", *words], cwd="/", env=self.eve.environ,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def leases(self) -> list[Path]:
        """The files of the victim in the folder of leases, with their paths here."""
        top = Path(f"/proc/{self.pid}/root/dev/shm")
        return [path for path in top.iterdir() if path.lstat().st_uid == ANN]

    def warnings(self) -> str:
        return (self.ann.queue_home / "supervisor.log").read_text()


def _as_user(pid: int, uid: int) -> tuple[str, ...]:
    enter = ("sh", "-c", _ENTER.format(pid=pid), "sh")
    return (*enter, "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


def _home_of(uid: int, top: Path, name: str, pid: int) -> Home:
    home = Home(top / name, prefix=_as_user(pid, uid))
    home.environ["LD_LIBRARY_PATH"] = str(top / "lib")
    for path in (home.root, home.folder, Path(home.environ["HOME"])):
        os.chown(path, uid, uid)
        path.chmod(0o711)
    return home


def _open_interpreter(top: Path) -> str:
    """A script that shows what runs this test to all users, and nothing else of a home that is closed to
    others.
    """
    needed = {
        os.path.realpath(path) for path in (sys.base_prefix, sys.prefix, Path(gofer.__file__).parents[1])
    }
    closed = {path: found for path in needed if (found := _closed_above(Path(path)))}
    kept = {path: str(top / f"kept-{number}") for number, path in enumerate(sorted(closed))}
    lines = [shlex.join(["mkdir", one]) for one in kept.values()]
    lines += [shlex.join(["mount", "--bind", path, one]) for path, one in kept.items()]
    lines += [
        shlex.join(["mount", "-t", "tmpfs", "-o", "mode=755", "test", one]) for one in set(closed.values())
    ]
    lines += [shlex.join(["mkdir", "-p", path]) for path in kept]
    lines += [shlex.join(["mount", "--bind", one, path]) for path, one in kept.items()]
    return "\n".join(lines)


def _closed_above(path: Path) -> str | None:
    """The topmost folder on the way to `path` that others cannot enter."""
    above = [one for one in reversed(path.parents) if not one.stat().st_mode & 0o001]
    return str(above[0]) if above else None


@pytest.fixture
def machine() -> Iterator[Machine]:
    top = Path(tempfile.mkdtemp(prefix="gofer-test-users-"))  # pytest's own folders are closed to others
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, top)
        top.chmod(0o755)
        for name in ("lib", "dev", "shared"):
            (top / name).mkdir()
        (top / "shared").chmod(0o777)
        source, library = Path(__file__).with_name("fake_nvml.c"), top / "lib" / "libnvidia-ml.so.1"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        words = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            _open_interpreter(top) + _MACHINE,
        ]
        words += ["sh", str(top / "dev")]
        holder = ends.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        ends.callback(holder.kill)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        ann, eve = (_home_of(uid, top, name, holder.pid) for uid, name in ((ANN, "ann"), (EVE, "eve")))
        yield Machine(holder.pid, ann, eve, top / "shared")
        ann.close()
        eve.close()


def precious(machine: Machine) -> Path:
    """A file of the victim that a shell executes."""
    path = Path(machine.ann.environ["HOME"]) / ".bashrc"
    path.write_text("echo mine\n")
    os.chown(path, ANN, ANN)
    path.chmod(0o600)
    return path


def lease_names(home: Home, uid: int) -> str:
    """Where the names of a user's leases begin; everybody can work it out."""
    digest = hashlib.sha256(os.fsencode(home.queue_home)).hexdigest()[:16]
    space = os.stat("/proc/self/ns/pid").st_ino
    return f"/dev/shm/gofer-gpus-{os.uname().nodename}-{space}-u{uid}-{digest}"


def check_ran(home: Home, run: dict[str, object], uid: int) -> None:
    assert (run["state"], run["exit_code"]) == ("succeeded", 0), run
    assert home.log(str(run["id"])) == f"gpu=0 uid={uid}\n"


# What gave the attacker the victim's account, and the same with the names that leases have now.
PLANT_FOLDER = """
folder=/dev/shm/gofer-gpus/$(uname -n)-$(stat -L -c %i /proc/self/ns/pid)
mkdir -p $folder; chmod 777 $folder ${folder%/*}; ln -sf $1 $folder/leases
"""
PLANT_NAMES = 'ln -sf "$1" "$2"; for number in $(seq 0 40); do ln -sf "$1" "$2-$number"; done'


@pytest.mark.parametrize("script", [PLANT_FOLDER, PLANT_NAMES], ids=["folder", "names"])
def test_a_planted_link_gives_nobody_the_account_of_another(machine: Machine, script: str) -> None:
    target = precious(machine)
    planted = machine.attack(script, str(target), lease_names(machine.ann, ANN))
    assert planted.returncode == 0, planted.stderr
    check_ran(machine.ann, machine.ann.finish("-n", "1", "sh", "-c", SHOW), ANN)
    assert target.read_text() == "echo mine\n"
    assert target.stat().st_mode & 0o777 == 0o600
    mark = machine.shared / "mark"
    machine.attack('echo "id -u > $2" >> "$1"', str(target), str(mark))
    subprocess.run(
        [*machine.ann.prefix, "bash", "-ic", "true"], cwd="/", env=machine.ann.environ,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert not mark.exists()


HOLD = """
folder=/dev/shm/gofer-gpus/$(uname -n)-$(stat -L -c %i /proc/self/ns/pid)
mkdir -p $folder; chmod 777 $folder ${folder%/*}; echo '{"gpus":{"0":1},"waiting":{}}' > $folder/leases
flock $folder/leases sleep 300 > /dev/null 2>&1 &
: > "$1"; : > "$1-x"; truncate -s 3G "$1-large"; mkfifo "$1-pipe"; mkdir "$1-folder"
number=0
for text in '{"gpus":{"0":1},"waiting":{}}' '{"gpus":{},"waiting":{"a":1}}' '{"gpus":{"0":[1,2' 7; do
    number=$((number + 1)); echo "$text" > "$1-$number"
done
for name in "$1" "$1"-x "$1"-[0-9]*; do flock "$name" sleep 300 > /dev/null 2>&1 & done
"""


def test_truncated_malformed_and_locked_files_hold_no_run_back_and_are_named(machine: Machine) -> None:
    attack = subprocess.Popen(
        [*machine.eve.prefix, "sh", "-c", HOLD + "\necho held; wait", "sh", lease_names(machine.ann, ANN)],
        cwd="/", env=machine.eve.environ, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert attack.stdout is not None
        assert attack.stdout.readline() == "held\n"
        check_ran(machine.ann, machine.ann.finish("-n", "1", "sh", "-c", SHOW), ANN)
        assert f"of user {EVE} is not a lease that counts, and is ignored" in machine.warnings()
        assert lease_names(machine.ann, ANN) in machine.warnings()
    finally:
        os.killpg(attack.pid, 9)
        attack.wait()


def test_the_lease_of_a_run_is_its_owners_alone(machine: Machine) -> None:
    """The attacker truncates, removes, replaces and locks the file while the victim holds the GPU."""
    gate = machine.shared / "gate"
    first = machine.ann.submit("-n", "1", "sh", "-c", f"{SHOW}; until [ -e {gate} ]; do sleep 0.05; done")
    machine.ann.until_logged(first, "gpu=0")
    (lease,) = machine.leases()
    before = lease.read_bytes()
    path = f"/dev/shm/{lease.name}"
    machine.attack('(: > "$1"); rm -f "$1"; mv "$1" "$1-x"; echo x > "$1-y"; mv -f "$1-y" "$1"', path)
    assert lease.read_bytes() == before
    lock = subprocess.Popen(
        [*machine.eve.prefix, "flock", path, "sh", "-c", "echo held; exec sleep 300"],
        cwd="/", env=machine.eve.environ, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert lock.stdout is not None
        assert lock.stdout.readline() == "held\n"
        waits = machine.eve.submit("-n", "1", "sh", "-c", SHOW)
        until(lambda: f"held by user {ANN}" in machine.eve.gofer("why", waits).out, "the holder to be named")
        second = machine.ann.submit("-n", "1", "sh", "-c", SHOW)
        gate.touch()
        check_ran(machine.ann, machine.ann.wait(first)[0], ANN)
        check_ran(machine.ann, machine.ann.wait(second)[0], ANN)
        check_ran(machine.eve, machine.eve.wait(waits)[0], EVE)
    finally:
        os.killpg(lock.pid, 9)
        lock.wait()


def test_two_users_take_turns_on_one_gpu(machine: Machine) -> None:
    """A command fails when another one is at work at the same time."""
    busy = machine.shared / "busy"
    alone = f"mkdir {busy} && sleep 0.2 && rmdir {busy} && {SHOW}"
    runs = [
        (home, uid, home.submit("-n", "1", "sh", "-c", alone))
        for _ in range(3)
        for home, uid in ((machine.ann, ANN), (machine.eve, EVE))
    ]
    for home, uid, run in runs:
        check_ran(home, home.wait(run)[0], uid)
    assert machine.leases() == []
