"""Choose the folders for working copies, so that the path of a Unix socket in a copy is short enough.

A command may bind `$PWD/run/ipc/inference-server.sock`, and the path of a socket has at most 107 bytes.

    <home>/w/<run>/<copy>/<name>                        beside the queue, if that path is short enough
    /var/tmp/gofer-<uid>/w/<mark>/<run>/<copy>/<name>   else, if this folder can be used
    work/<run>/copies in the folder of the queue        a link to the folder of the run's copies

<home> is gofer's folder on the disk of the queue, or, on a node without a queue, on the scratch disk. <mark>
identifies one queue or one node. <name> is that of the project's folder: see `copy_name`. With the link,
every later supervisor finds the copies, whatever its environment is. Only the queue that made a link follows
it, so no queue removes copies of another queue. The folder work/<run> also holds files that must be on the
disk of the queue and need no short path.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import stat
import time
from typing import Iterator, List, Optional

from gofer.core import files, private_folder
from gofer.core.code import trees
from gofer.core.node_request import CodeFields, NodeRequest
from gofer.core.private_folder import ForeignFolder
from gofer.core.queue_home import WORK_DIR_VARIABLE

# The longest path of a working copy, in bytes: `sun_path` of unix(7) has 108, with the zero at its end.
LONGEST_COPY = 107 - len("/run/ipc/inference-server.sock")
# The variable WORK_DIR_VARIABLE can name another folder. With `none`, copies are made only beside the queue.
_AWAY = "/var/tmp"
_COPIES = "copies"
# Another disk than that of the queue is used only if it has this much space, or as much as the queue's disk.
_ENOUGH_BYTES = 10 * 2**30
# The longest usual name of <copy>: `<attempt>-<node>`, or `<pid>.<number>` of a row.
_NAME_OF_ROW = "3fffff.9"
# A project's folder can give its name to a working copy if the name is no longer and has no other characters.
_SHORT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,19}", re.ASCII)
_OTHER_NAME = "c"
# The bytes of a run's id: see gofer.model.ids.
_ID_BYTES = 21
# A newer folder may belong to an agent that has not locked it yet.
_NEW_S = 3600.0


def work_folder(queue_home: str, request_id: str) -> str:
    """The folder for files that the runs of a request need on the disk of the queue. It is removed after the
    last run.
    """
    return os.path.join(queue_home, "work", request_id)


def copy_name(origin: Optional[CodeFields]) -> str:
    """The name of a working copy: that of the project's folder, for code that imports itself by this name.

    `origin` is the origin of the code, as in a request. A name that is long or has special characters is
    replaced by a short one.
    """
    name = os.path.basename(str((origin or {}).get("folder") or ""))
    return name if _SHORT_NAME.fullmatch(name) else _OTHER_NAME


def copies_folder(queue_home: str, request_id: str, request: NodeRequest, *, is_row: bool) -> str:
    """The folder for working copies of a request; created if absent. Idempotent.

    When no short folder can be used, this is a longer one. Never raises: an agent that writes there reports
    what is wrong with the disk. Other machines need not see the folder: see gofer.node.code.shared_copy.
    """
    found = _linked(queue_home, request_id)
    try:
        if found is not None and _is_usable(queue_home, found):
            private_folder.make_missing(found)
            return found
        return _make_copies(queue_home, request_id, request, is_row)
    except OSError:
        return work_folder(queue_home, request_id)


def _make_copies(queue_home: str, request_id: str, request: NodeRequest, is_row: bool) -> str:
    span = request.span
    # Machines that share a home have one folder each for their nodes of a run.
    name = request_id if span is None else f"{request_id}.{span[0]}"
    copy = _NAME_OF_ROW if is_row else f"99-{request.layout.nodes - 1}"
    below = f"{name}/{copy}/{copy_name(request.code)}"
    path = os.path.join(_choose(queue_home, away_root(queue_home), below), name)
    work = work_folder(queue_home, request_id)
    private_folder.make_missing(work)
    link = os.path.join(work, _COPIES)
    files.remove(link)
    # made before the folder, so that the folder is found even if this supervisor is killed here
    os.symlink(path, link)
    private_folder.make_missing(path)
    return path


def node_folder(queue_home: str, name: str, copy: str) -> str:
    """The folder for working copies of one node of a run, on a machine without a queue. The folder need not
    exist.

    `name` is the name of the folder, `copy` the path of a copy in it. Removes what killed agents of this node
    left below /var/tmp; what they left on the scratch disk is removed by the site. OSError when no folder can
    be made.
    """
    away = _away_root(f"node {os.uname().nodename}")
    root = _choose(queue_home, away, f"{name}/{copy}")
    if root == away:
        _remove_unlocked(root)
    return os.path.join(root, name)


def _remove_unlocked(root: str) -> None:
    """Remove folders that are not new and that no live agent of this node has locked: see `held`."""
    for name in os.listdir(root):
        path = os.path.join(root, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # removed in the meantime
        try:
            if time.time() - os.fstat(fd).st_ctime > _NEW_S:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                trees.remove_tree(path)
        except OSError:
            pass  # an agent has locked it
        finally:
            os.close(fd)


def _choose(queue_home: str, away: Optional[str], below: str) -> str:
    """Make a folder for working copies, mode 0700, in which the path `below` is short enough if possible."""
    near = near_root(queue_home)
    if away is not None and not fits(near, below) and fits(away, below):
        try:
            _check_disk(queue_home, os.path.dirname(_top(away)))
            _own(away)
            return away
        except OSError:
            pass  # the folder belongs to another user or cannot be used; a long path is better than none
    private_folder.make(near)
    return near


def long_root(queue_home: str) -> Optional[str]:
    """The folder for working copies if its path is too long for Unix sockets in them; else None."""
    below = f"{'r' * _ID_BYTES}/99-0/{_OTHER_NAME}"
    root = near_root(queue_home)
    if not fits(root, below):
        root = _choose(queue_home, away_root(queue_home), below)
        with contextlib.suppress(OSError):
            os.rmdir(root)  # restore the state before this check; fails if runs have copies there
    return None if fits(root, below) else root


def fits(root: str, below: str) -> bool:
    """Whether a Unix socket can be bound in the copy `below` the folder, by its given path and by its real
    path.
    """
    longest = max(len(os.fsencode(path)) for path in (root, os.path.realpath(root)))
    return longest + 1 + len(os.fsencode(below)) <= LONGEST_COPY


def near_root(queue_home: str) -> str:
    """The folder for copies in gofer's own folder, on the disk of the queue."""
    above, name = os.path.split(os.path.dirname(queue_home))
    return os.path.join(above if name == "engine" else queue_home, "w")


def away_root(queue_home: str) -> Optional[str]:
    """The folder for copies of this queue below /var/tmp, which need not exist. None when switched off."""
    return _away_root(os.path.realpath(queue_home))


def _away_root(owner: str) -> Optional[str]:
    base = os.environ.get(WORK_DIR_VARIABLE) or _AWAY
    if not os.path.isabs(base):
        return None
    return os.path.join(os.path.normpath(base), f"gofer-{os.getuid()}", "w", _mark(owner))


@functools.lru_cache(maxsize=8)
def _mark_of_queue(queue_home: str) -> str:
    return _mark(os.path.realpath(queue_home))


def _mark(owner: str) -> str:
    import hashlib  # slow to load, and `copy_name` does without

    return hashlib.sha256(os.fsencode(owner)).hexdigest()[:8]


def _top(away: str) -> str:
    return os.path.dirname(os.path.dirname(away))


def _check_disk(queue_home: str, base: str) -> None:
    """OSError when programs cannot be run in the folder, when others may rename files in it, or when its disk
    is small.
    """
    status, space = os.stat(base), os.statvfs(base)
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        raise ForeignFolder(f"every user may rename files in {base}")
    if space.f_flag & os.ST_NOEXEC:
        raise PermissionError(f"no program can be run in {base}")
    if status.st_dev != os.stat(queue_home).st_dev:
        wanted = min(_free_bytes(os.statvfs(queue_home)), _ENOUGH_BYTES)
        if _free_bytes(space) < wanted:
            raise OSError(f"the disk of {base} has less than {wanted} bytes left")


def _free_bytes(space: os.statvfs_result) -> int:
    return space.f_bavail * space.f_frsize


def _own(away: str) -> None:
    """Make the folder if it is absent. ForeignFolder when it belongs to another user or its path has a
    link.
    """
    if os.path.islink(_top(away)):
        raise ForeignFolder(f"{_top(away)} is a link and not this user's own folder")
    private_folder.make(_top(away))
    private_folder.make(away, owned=2)
    _check_own(away)


def _check_own(away: str) -> None:
    for path in (_top(away), os.path.dirname(away), away):
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise ForeignFolder(f"{path} is not this user's own folder")


def _linked(queue_home: str, request_id: str) -> Optional[str]:
    """The folder with the copies of a request; None for a request of an older gofer, which made no link."""
    try:
        return os.readlink(os.path.join(work_folder(queue_home, request_id), _COPIES))
    except OSError:
        return None


def is_away(queue_home: str, folder: str) -> bool:
    """Whether a folder of copies is this queue's folder below /var/tmp or the folder that replaces it."""
    return os.path.basename(os.path.dirname(folder)) == _mark_of_queue(queue_home)


def _is_usable(queue_home: str, folder: str) -> bool:
    """Whether a folder of copies can be used. One below /var/tmp is checked each time: a clean-up program may
    have removed it, and another user may have made it again.
    """
    if not is_away(queue_home, folder):
        return os.path.dirname(folder) == near_root(queue_home)
    try:
        _own(os.path.dirname(folder))
    except OSError:
        return False
    return True


def remove_in_steps(queue_home: str, request_id: str) -> Iterator[None]:
    """Remove the copies of a request that is over, and its other files on the disk of the queue. Idempotent.

    A link that another queue made is not followed; a copied home folder has such links. Yields between the
    steps, so that the caller can do other work.
    """
    found = _linked(queue_home, request_id)
    if found is not None:
        yield from trees.remove_in_steps(os.path.join(near_root(queue_home), os.path.basename(found)))
        if is_away(queue_home, found):
            yield from _remove_away(found)
    yield from trees.remove_in_steps(work_folder(queue_home, request_id))


def _remove_away(folder: str) -> Iterator[None]:
    try:
        _check_own(os.path.dirname(folder))
        yield from trees.remove_in_steps(folder)
        os.rmdir(os.path.dirname(folder))
    except OSError:
        pass  # the folder is another user's or gone, or other runs of the queue have copies in it


def kept_folders(queue_home: str, copy: Optional[str] = None) -> List[str]:
    """Folders for working copies whose files exceed the limit, the best first. `gofer prune` removes the
    copies.

    The second folder is on the disk of the working copy `copy`; without `copy`, on the disk of /var/tmp.
    """
    kept = [os.path.join(queue_home, "kept")]
    if copy is not None:
        folder = os.path.dirname(os.path.dirname(copy))
        return [*kept, os.path.join(os.path.dirname(folder), "kept")] if is_away(queue_home, folder) else kept
    other = away_root(queue_home)
    try:
        if other is not None:
            _check_own(other)
            kept.append(os.path.join(other, "kept"))
    except OSError:
        pass  # there is no such folder
    return kept


@contextlib.contextmanager
def held(folder: str) -> Iterator[None]:
    """Lock the folder during the block, so that programs that clean /tmp and /var/tmp by age leave it alone:
    systemd-tmpfiles skips locked folders. Programs that a run starts do not inherit the lock.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)
