"""Leases say which queue holds which GPU of this machine, for all people who run gofer on it.

Each person has a queue of their own. Each queue has one small file that says which GPUs it holds and whether
it waits. Only the owner writes the file; everybody reads it. The files lie in a shared folder in which only
the owner can remove or rename a file (the sticky bit, as in /dev/shm), so nobody can change what another
person holds. There is no common lock with which a person could block the others.

A queue takes a GPU in two steps: it writes its claim, then it reads all other files. When another file
claims the same GPU, the queue withdraws. Of two queues that claim at once, at least one reads after the
other wrote, so a GPU never has two holders.

A lease is worth nothing once the agent that it was taken for is dead, so nobody has to clean up. Every field
of a foreign file is checked: a malformed file counts as empty, and `ignored` names it.
"""

from __future__ import annotations

import hashlib
import os
import random
import stat
import sys
import time
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    TypeVar,
)

from gofer.core import files, processes
from gofer.core.json_text import parse_json
from gofer.core.processes import ProcessIdentity
from gofer.core.sleep import pause

if TYPE_CHECKING:  # a laptop that asks what a run waits for needs no agents
    from gofer.queue.active_run import ActiveRun
    from gofer.queue.agent_pool import PooledAgent, Share
    from gofer.queue.database import QueuedRun
    from gofer.queue.journal import Journal
    from gofer.queue.scheduler import Grant, Pool

T = TypeVar("T")

# Cleared when the machine restarts, and there for all its users.
_PLACES = ("/dev/shm", "/tmp")
_PREFIX = "gofer-gpus"
_MAX_BYTES = 1 << 16
_MAX_FILES_OF_ONE = 64
_MAX_GPU = 1023
_CLAIM_TRIES = 5
# Only the first runs of a queue are checked for GPUs: runs further back do not start soon.
_CHECKED_RUNS = 64
# A waiting queue renews its claim every few seconds; an older claim no longer counts.
_WAIT_EXPIRES_S = 20.0
# A queue that claims to wait but takes no GPU holds the others back for at most this time.
YIELD_AT_MOST_S = 600.0
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LeaseFolderError(Exception):
    """There is no folder in which leases are safe from other users."""


class Lease(NamedTuple):
    """What one queue holds, as its file says. `who` begins with the number of the user who owns the file."""

    who: str
    gpus: Dict[int, ProcessIdentity]
    waits: bool


def usual_folder() -> str:
    """The folder that all users of this machine share; LeaseFolderError when none is safe."""
    for place in _PLACES:
        if is_safe(place):
            return place
    raise LeaseFolderError(f"neither {' nor '.join(_PLACES)} is a folder with the sticky bit")


def is_safe(folder: str) -> bool:
    """Whether no other user can remove or replace a file of ours in the folder."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.getuid()):
        return False
    return bool(found.st_mode & stat.S_ISVTX) or not found.st_mode & 0o022


def _name_prefix() -> str:
    """How the names of lease files begin. The process namespace is part of the name: containers may share the
    folder but see different processes, and a queue that cannot see a holder cannot check its lease.
    """
    namespace = os.stat("/proc/self/ns/pid").st_ino
    return f"{_PREFIX}-{os.uname().nodename}-{namespace}-"


class Leases:
    """One queue's view of a shared folder; `queue` names the queue. One writer for each queue, one thread."""

    def __init__(self, folder: str, queue: str, *, yield_at_most_s: float = YIELD_AT_MOST_S) -> None:
        if not is_safe(folder):
            raise LeaseFolderError(f"{folder} is not safe from other users: it has no sticky bit")
        self._folder = folder
        self._queue = queue
        self._who = f"{os.getuid()}:{queue}"
        self._prefix = _name_prefix()
        self._yield_at_most_s = yield_at_most_s
        self._yields_since: Dict[int, float] = {}
        self._path: Optional[str] = None
        # By the number of a user, a sentence about the user's files that do not count.
        self.ignored: Dict[int, str] = {}

    def taken_by_others(self) -> set[int]:
        """The GPUs that this queue may not take now. Afterwards this queue no longer counts as waiting."""
        mine, others = self._own(), self._others()
        if mine.waits:
            self._write(mine.gpus, waits=False)
        if self._must_yield(mine, others):
            return set(range(_MAX_GPU + 1))
        return {gpu for one in others for gpu in one.gpus}

    def others(self) -> Dict[str, List[int]]:
        """Which GPUs each other queue holds, by its user and folder; changes nothing."""
        return {one.who: list(one.gpus) for one in self._others() if one.gpus}

    def take(self, wanted: Dict[int, ProcessIdentity]) -> bool:
        """Lease these GPUs for these agents. False when another queue holds one of them; then none is
        leased.
        """
        mine = self._own()
        if self._must_yield(mine, self._others()):
            return False
        for _ in range(_CLAIM_TRIES):
            self._write({**mine.gpus, **wanted}, waits=False)
            if not any(set(wanted) & set(one.gpus) for one in self._others()):
                return True
            self._write(mine.gpus, waits=mine.waits)
            pause(random.uniform(0.001, 0.01))  # the other queue may be withdrawing its claim as well
        return False

    def release(self, gpus: Sequence[int]) -> None:
        mine = self._own()
        self._write({gpu: who for gpu, who in mine.gpus.items() if gpu not in gpus}, waits=mine.waits)

    def wait(self) -> None:
        """Record that this queue has a run that waits only for GPUs."""
        self._write(self._own().gpus, waits=True)

    def _must_yield(self, mine: Lease, others: Sequence[Lease]) -> bool:
        """Whether another user's queue waits that holds fewer GPUs than this one. A user is given way for a
        limited time. The limit counts per user, not per queue, since a user can create any number of queues.
        """
        waiting = {_user_of(one) for one in others if one.waits and len(one.gpus) < len(mine.gpus)}
        now = time.monotonic()
        self._yields_since = {user: self._yields_since.get(user, now) for user in waiting}
        return any(now - since < self._yield_at_most_s for since in self._yields_since.values())

    # -- files

    def _own(self) -> Lease:
        found = _read(self._own_path())
        return found if found and found.who == self._who else Lease(self._who, {}, False)

    def _others(self) -> List[Lease]:
        return [one for one in self._all() if one.who != self._who]

    def _all(self) -> Iterator[Lease]:
        """Files beyond the first 64 of an owner are not opened: nobody can hide the files of others behind
        many of their own.
        """
        seen: Dict[int, int] = {}
        for entry in os.scandir(self._folder):
            if not entry.name.startswith(self._prefix) or entry.name.endswith(".tmp"):
                continue
            try:
                owner = entry.stat(follow_symlinks=False).st_uid
            except OSError:
                continue  # removed meanwhile
            seen[owner] = seen.get(owner, 0) + 1
            lease = _read(entry.path) if seen[owner] <= _MAX_FILES_OF_ONE else None
            if lease is not None:
                yield lease
            elif os.path.lexists(entry.path):
                words = f"{entry.path} of user {owner} is not a lease that counts, and is ignored"
                self.ignored.setdefault(owner, words)

    def _own_path(self) -> str:
        """The path of this queue's file, which may not exist yet. When another user has taken the usual name,
        the file gets a name that nobody can guess.
        """
        digest = hashlib.sha256(os.fsencode(self._queue)).hexdigest()[:16]
        stem = os.path.join(self._folder, f"{self._prefix}u{os.getuid()}-{digest}")
        if self._path is None:
            self._path = next((path for path in self._paths_from(stem) if _is_ours(path)), stem)
        if os.path.lexists(self._path) and not _is_ours(self._path):
            self._path = f"{stem}-{os.urandom(8).hex()}"
        return self._path

    def _paths_from(self, stem: str) -> List[str]:
        names = sorted(name for name in os.listdir(self._folder) if not name.endswith(".tmp"))
        paths = [os.path.join(self._folder, name) for name in names]
        return [path for path in paths if path.startswith(stem)]

    def _write(self, gpus: Dict[int, ProcessIdentity], *, waits: bool) -> None:
        content: Dict[str, object] = {
            "queue": self._queue,
            "gpus": {str(gpu): list(agent) for gpu, agent in gpus.items()},
            "waits_at": time.time() if waits else None,
        }
        path = self._own_path()
        content["file"] = os.path.basename(path)
        if not gpus and not waits:
            files.remove(path)
        else:
            files.write_whole(path, files.encode(content), mode=0o644)
            os.chmod(path, 0o644)  # whatever the umask is: others must be able to read it


def _is_ours(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_uid == os.getuid() and stat.S_ISREG(found.st_mode)


def _user_of(lease: Lease) -> int:
    return int(lease.who.partition(":")[0])


def _read(path: str) -> Optional[Lease]:
    """What the file says, without leases of dead agents; None for a file that is absent or malformed."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            return None
        data = os.read(fd, _MAX_BYTES)
        return _parsed(data, found.st_uid, os.path.basename(path), may_be_nameless=found.st_nlink == 1)
    finally:
        os.close(fd)


def _parsed(data: bytes, owner: int, name: str, *, may_be_nameless: bool) -> Optional[Lease]:
    """Earlier versions of gofer write no name into the file."""
    try:
        content = parse_json(data)
        if content.get("file", name if may_be_nameless else None) != name:
            return None
        who = f"{owner}:{content['queue']}"
        agents = {int(gpu): ProcessIdentity(*map(int, agent)) for gpu, agent in content["gpus"].items()}
        waits_at = content["waits_at"]
        waits = waits_at is not None and abs(time.time() - float(waits_at)) < _WAIT_EXPIRES_S
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    held = {gpu: agent for gpu, agent in agents.items() if 0 <= gpu <= _MAX_GPU and _is_of(agent, owner)}
    return Lease(who, held, waits)


def _is_of(agent: ProcessIdentity, owner: int) -> bool:
    """Whether the agent is alive and belongs to the file's owner. Nobody can hold a GPU in another person's
    name.
    """
    try:
        return os.stat(f"/proc/{agent.pid}").st_uid == owner and processes.is_alive(agent)
    except OSError:
        return False


class GpuSharing:
    """A pool whose GPUs other queues may hold. Runs whose GPUs are not shared never touch the leases."""

    def __init__(self, queue_home: str, pool: Pool, journal: Journal) -> None:
        self._pool = pool
        self._journal = journal
        self._queue_home = queue_home
        self._leases: Optional[Leases] = None
        self._problem = ""
        self._named: Set[int] = set()

    def read_others(self, waiting: Sequence[QueuedRun]) -> None:
        """Read which GPUs other queues hold, if a waiting run shares GPUs."""
        wants = any(self._is_shared(one) for one in waiting[:_CHECKED_RUNS])
        nothing: set[int] = set()
        self._pool.foreign = self._ask(Leases.taken_by_others, nothing) if wants else nothing

    def take(
        self, starts: Iterable[tuple[QueuedRun, Grant]], agents_of: dict[str, list[PooledAgent]]
    ) -> list[tuple[QueuedRun, Grant]]:
        """The starts whose GPUs could be leased. Another queue took the GPUs of the others in the meantime;
        their grants go back to the pool.
        """
        allowed = []
        for entry, grant in starts:
            wanted = {gpu: one.who for one, gpus in zip(agents_of[entry.id], grant.gpus) for gpu in gpus}
            if not self._is_shared(entry) or self._take(wanted):
                allowed.append((entry, grant))
            else:
                self._pool.give_back(grant)
        return allowed

    def _take(self, wanted: Dict[int, ProcessIdentity]) -> bool:
        return self._ask(lambda leases: leases.take(wanted), False)

    def retake(self, one: ActiveRun, share: Share, who: ProcessIdentity) -> bool:
        """Lease the GPUs of a share for another agent; False when another queue has taken one meanwhile."""
        if not self._is_shared(one.entry):
            return True
        return self._take({gpu: who for gpu in one.grant.gpus[one.position(share)]})

    def give_back(self, one: ActiveRun) -> None:
        self._pool.give_back(one.grant)
        if self._is_shared(one.entry):
            freed = [gpu for gpus in one.grant.gpus for gpu in gpus]
            self._ask(lambda leases: leases.release(freed), None)

    def wait(self) -> None:
        """Tell the other queues that a run here waits for GPUs that they hold."""
        if self._pool.foreign:
            self._ask(Leases.wait, None)

    def _ask(self, question: Callable[[Leases], T], otherwise: T) -> T:
        """The answer of the leases, or `otherwise` when they cannot be used. Then only runs with GPUs wait,
        and the supervisor's log names the problem once. The log also names, once, each user whose files are
        ignored.
        """
        try:
            if self._leases is None:
                self._leases = Leases(usual_folder(), self._queue_home)
            answer = question(self._leases)
        except (LeaseFolderError, OSError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                sys.stderr.write(f"GPUs cannot be shared with other users: {error}\n")
            return otherwise
        for user in self._leases.ignored.keys() - self._named:
            self._named.add(user)
            sys.stderr.write(f"warning: {self._leases.ignored[user]}\n")
        return answer

    def _is_shared(self, entry: QueuedRun) -> bool:
        return bool(self._journal.request(entry).leased)
