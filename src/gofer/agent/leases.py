"""Which GPUs of this machine are whose, between all who run gofer on it, each with a queue of their own.

One file that everybody may write, changed under a lock. A lease is held for an agent and is worth nothing
once that agent is dead, so nobody has to clean up behind anybody. Who waits says so, and whoever holds more
than somebody who waits takes no more until that one has had a turn.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List

from gofer.agent import processes
from gofer.agent.processes import Identity

# Cleared when the machine restarts, and there for all its users.
_PLACES = ("/dev/shm", "/tmp")
# Whoever still waits says so again every few seconds.
_FORGOTTEN_S = 20.0


def usual_folder() -> str:
    """The same for all users of this machine.

    Containers may share memory disks and see different processes: a lease means nothing to who cannot see its
    holder, so the numbering of processes is part of the name.
    """
    place = next((one for one in _PLACES if os.path.isdir(one)), "/tmp")
    numbering = os.stat("/proc/self/ns/pid").st_ino
    return os.path.join(place, "gofer-gpus", f"{os.uname().nodename}-{numbering}")


class Leases:
    """One queue's view; `who` names the queue, for which leases are held."""

    def __init__(self, folder: str, who: str) -> None:
        self._folder = folder
        self._who = f"{os.getuid()}:{who}"

    def taken_by_others(self) -> set[int]:
        """The GPUs that this queue may not take now."""
        with self._state() as state:
            state["waiting"].pop(self._who, None)
            theirs = {int(gpu) for gpu, lease in state["gpus"].items() if lease["who"] != self._who}
            return set(range(1024)) if self._is_to_yield(state) else theirs

    def others(self) -> Dict[str, List[int]]:
        """Which GPUs each other queue holds, by its user and folder; changes nothing."""
        found: Dict[str, List[int]] = {}
        with self._state() as state:
            for gpu, lease in state["gpus"].items():
                if lease["who"] != self._who:
                    found.setdefault(lease["who"], []).append(int(gpu))
        return found

    def take(self, wanted: Dict[int, Identity]) -> bool:
        """Hold these GPUs for these agents; False, and none is held, when one of them is somebody else's."""
        with self._state() as state:
            held = state["gpus"]
            if self._is_to_yield(state) or any(
                held.get(str(gpu), {}).get("who", self._who) != self._who for gpu in wanted
            ):
                return False
            for gpu, agent in wanted.items():
                held[str(gpu)] = {"who": self._who, "agent": list(agent)}
            state["waiting"].pop(self._who, None)
            return True

    def release(self, gpus: list[int]) -> None:
        with self._state() as state:
            for gpu in gpus:
                if state["gpus"].get(str(gpu), {}).get("who") == self._who:
                    del state["gpus"][str(gpu)]

    def wait(self) -> None:
        """Say that this queue has a run that would start if it had GPUs."""
        with self._state() as state:
            known = state["waiting"].get(self._who)
            since = known["since"] if known else time.time()
            state["waiting"][self._who] = {"since": since, "seen": time.time()}

    def _is_to_yield(self, state: Dict[str, Any]) -> bool:
        """Whether somebody waits who holds less than this queue does."""
        mine = _count(state, self._who)
        return any(_count(state, other) < mine for other in state["waiting"] if other != self._who)

    @contextmanager
    def _state(self) -> Iterator[Dict[str, Any]]:
        """What is held, without what the dead hold; written back when changed."""
        _make_for_all(self._folder)
        fd = os.open(os.path.join(self._folder, "leases"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_uid == os.getuid():
                os.fchmod(fd, 0o666)  # whatever the umask is
            before = os.pread(fd, 1 << 20, 0)
            state = _alive(_parsed(before))
            yield state
            after = json.dumps(state).encode()
            if after != before:
                os.ftruncate(fd, 0)
                os.pwrite(fd, after, 0)
        finally:
            os.close(fd)


def _parsed(data: bytes) -> Dict[str, Any]:
    """Nothing is held by what cannot be read, as after a full disk."""
    try:
        state = json.loads(data)
        return {"gpus": dict(state["gpus"]), "waiting": dict(state["waiting"])}
    except (ValueError, KeyError, TypeError):
        return {"gpus": {}, "waiting": {}}


def _alive(state: Dict[str, Any]) -> Dict[str, Any]:
    now = time.time()
    gpus = {gpu: one for gpu, one in state["gpus"].items() if processes.is_alive(Identity(*one["agent"]))}
    waiting = {who: one for who, one in state["waiting"].items() if abs(now - one["seen"]) < _FORGOTTEN_S}
    return {"gpus": gpus, "waiting": waiting}


def _count(state: Dict[str, Any], who: str) -> int:
    return sum(lease["who"] == who for lease in state["gpus"].values())


def _make_for_all(folder: str) -> None:
    for path in (os.path.dirname(folder), folder):
        try:
            os.mkdir(path)
            os.chmod(path, 0o777)
        except FileExistsError:
            pass
