"""Which files that a command wrote again hold what the code has.

Test suites, formatters and `touch` write files with the bytes that they had. Such files are not kept.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Iterable, List, Set

from gofer.core.code.manifest import ManifestEntry, load
from gofer.core.code.packs import CHUNK_BYTES
from gofer.core.code.snapshot_names import ManifestError
from gofer.node.code.stage import code_reader
from gofer.node.code.working_copy import Contents
from gofer.node.task import Task

# Reading more than this would delay the end of a run; the files beyond it are kept.
_MOST_BYTES = 256 * 1024**2


def same_as_code(task: Task, changed: Iterable[str], before: Contents, now: Contents) -> Set[str]:
    """Those of the changed files and links whose content is that of the snapshot.

    Reads files of the copy, and the snapshot's manifest where a file may be the same. Empty when the
    manifest cannot be had.
    """
    wanted = _likely(changed, before, now)
    snapshot = task.request.snapshot
    if not wanted or snapshot is None:
        return set()
    try:
        entries = {os.fsdecode(entry.path): entry for entry in load(code_reader(task), snapshot).entries}
    except (ManifestError, OSError):
        return set()
    return {path for path in wanted if path in entries and _is_same(task.code, path, entries[path])}


def _likely(changed: Iterable[str], before: Contents, now: Contents) -> List[str]:
    """Those with the size that they had, up to a bound."""
    found, size = [], 0
    for path in changed:
        if path in before and before[path][1] == now[path][1]:
            size += now[path][1] if stat.S_ISREG(now[path][4]) else 0
            if size > _MOST_BYTES:
                break
            found.append(path)
    return found


def _is_same(code: str, path: str, entry: ManifestEntry) -> bool:
    whole = os.path.join(code, path)
    try:
        if entry.kind == "l":
            return os.path.islink(whole) and os.fsencode(os.readlink(whole)) == entry.target
        fd = os.open(whole, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb", buffering=0) as file:
            if os.fstat(fd).st_size != entry.size:
                return False
            pieces = (file.read(CHUNK_BYTES) for _ in entry.blobs)
            return all(hashlib.sha256(piece).hexdigest() == blob for piece, blob in zip(pieces, entry.blobs))
    except OSError:
        return False
