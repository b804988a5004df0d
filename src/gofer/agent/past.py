"""Brings what earlier attempts left in a run's outputs from its object store to a node that has none of it.

They come to a place beside the run's folder, and take theirs in it all at once, after it is written down what
they are: who sends outputs (`gofer.agent.outputs`) finds none of them, or all, and knows which are as they
came, also when another node has replaced them in the store meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from gofer.agent import chore, files, folder
from gofer.agent.chore import ChoreFailed, Say
from gofer.agent.ferry import PATIENCE_S, REFUSALS, REFUSED_PATIENCE_S
from gofer.agent.mapped import FolderFailed, FolderStopped
from gofer.agent.objects.facts import ObjectInfo, ObjectsError
from gofer.agent.pausing import pause
from gofer.agent.progress import Event, Progress

_TRY_S = 2.0
_BESIDE = "past"
_BROUGHT = "brought.jsonl"

Stamp = Tuple[int, int]


def stamp(status: os.stat_result) -> Stamp:
    """What tells a version of a file from another."""
    return status.st_size, status.st_mtime_ns


class Brought(NamedTuple):
    """The outputs that were brought, by their keys, as they came. With `is_ours`, what the command removes of
    them goes from the store too, since no other node could miss it.
    """

    is_ours: bool
    stamps: Dict[str, Stamp]


def read(spool: str) -> Optional[Brought]:
    """What was brought to this spool; None when nobody did."""
    try:
        with open(os.path.join(spool, _BROUGHT), "rb") as file:
            first, *lines = [json.loads(line) for line in file]
    except FileNotFoundError:
        return None
    return Brought(bool(first["ours"]), {str(key): (int(size), int(at)) for key, size, at in lines})


class Past(NamedTuple):
    """The outputs of one run in the store that `spec` opens, and the spool they belong in; `is_ours` when the
    run has no other node.
    """

    spec: Mapping[str, Any]
    spool: str
    run_id: str
    is_ours: bool

    def bring(self, log: str, event: Event, keep_on: Callable[[int], bool]) -> None:
        """Have them here; at once when they are. Adds a line to `log` that says how much it was.

        A store that is away is waited for. FolderFailed or FolderStopped; `keep_on` is as in `chore.do`.
        """
        if self._is_here():
            return
        began = time.monotonic()
        progress = Progress(event, "outputs", "past")
        progress.tell("copying")
        try:
            chore.do(lambda say: _bring(self, say), hear=progress.hear, keep_on=keep_on)
        except chore.ChoreStopped:
            raise FolderStopped("while the outputs of earlier attempts were brought") from None
        except (ChoreFailed, OSError) as error:
            words = f"the outputs of earlier attempts could not be brought from the store: {error}"
            raise FolderFailed(words) from error
        progress.tell("copied")
        brought = read(self.spool)
        sizes = [size for size, _ in brought.stamps.values()] if brought else []
        words = f"brought back {_count(len(sizes), 'file')} of the outputs, {_count(sum(sizes), 'byte')}"
        try:
            files.append(log, f"gofer: {words}, in {time.monotonic() - began:.1f} s\n".encode())
        except OSError:
            pass  # a full disk, which the command will find by itself

    def _is_here(self) -> bool:
        """What is written down and still beside was about to take its place when it was interrupted."""
        is_beside = os.path.exists(os.path.join(self.spool, _BESIDE, "tree"))
        return read(self.spool) is not None and not is_beside


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _bring(past: Past, say: Say) -> None:
    """In a child. What has arrived when it fails is there for the next try."""
    from gofer.agent import copying

    key = folder.outputs_key(past.run_id)
    prefix = past.spec.get("prefix", "")
    spec = {**past.spec, "prefix": f"{prefix}/{key}" if prefix else key}
    beside = os.path.join(past.spool, _BESIDE)
    _patiently(lambda: copying.copy(spec, beside, {"run": past.run_id}, say))
    tree = copying.tree_of(beside)
    _patiently(lambda: _restore(spec, tree))
    outputs = os.path.join(past.spool, key)
    os.makedirs(outputs, exist_ok=True)
    os.chmod(tree, os.stat(outputs).st_mode & 0o777)
    files.write_whole(os.path.join(past.spool, _BROUGHT), _written(tree, key, past.is_ours))
    os.rename(tree, outputs)


def _restore(spec: Mapping[str, Any], tree: str) -> None:
    """Times as they were on the node that wrote the files: programs take the newest for the last. And what
    may be executed, where the listing that the copy went by does not say it.
    """
    from gofer.agent.abreast import each
    from gofer.agent.copying import AT_ONCE
    from gofer.agent.remote_folder import RemoteFolder, is_executable, mtime_ns, stamp_ns

    remote = RemoteFolder(spec)

    def restore(info: ObjectInfo) -> None:
        path = os.path.join(tree, info.key)
        if not os.path.isfile(path) or os.stat(path).st_mtime_ns != stamp_ns(info):
            return  # it is another by now than the one that was brought
        known = info if info.metadata is not None else remote.head(info.key)
        if known is None:
            return
        if is_executable(known):
            os.chmod(path, 0o755)
        at = mtime_ns(known)
        if at is not None:
            os.utime(path, ns=(at, at))

    each(remote.list(), restore, at_once=AT_ONCE)


def _written(tree: str, key: str, is_ours: bool) -> bytes:
    lines: List[bytes] = [files.encode({"ours": is_ours}) + b"\n"]
    for where, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(where, name)
            own = os.path.normpath(os.path.join(key, os.path.relpath(path, tree)))
            lines.append(files.encode([own, *stamp(os.stat(path))]) + b"\n")
    return b"".join(lines)


def _patiently(act: Callable[[], None]) -> None:
    began, has_complained = time.monotonic(), False
    while True:
        try:
            return act()
        except (ObjectsError, ChoreFailed) as error:
            cause = error if isinstance(error, ObjectsError) else error.__cause__
            if not isinstance(cause, ObjectsError):
                raise
            patience_s = REFUSED_PATIENCE_S if cause.status in REFUSALS else PATIENCE_S
            if time.monotonic() - began > patience_s:
                raise
            if not has_complained:
                words = f"the store does not give the outputs of earlier attempts, and is waited for: {error}"
                print(f"gofer: {words}", file=sys.stderr, flush=True)
            has_complained = True
        pause(_TRY_S)
