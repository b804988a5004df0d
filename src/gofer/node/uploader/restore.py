"""Brings what earlier attempts left in a run's outputs from its object store to a node that has none of it.
What was kept of their working folders (`files/`) comes the same way, with the list of it.

They come to a place beside the run's folder, and take theirs in it all at once, after it is written down what
they are: who sends outputs (`gofer.node.uploader.outputs`) finds none of them, or all, and knows which are as
they came, also when another node has replaced them in the store meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from gofer.core import files, run_layout
from gofer.core.parallel import Say
from gofer.core.sleep import pause
from gofer.core.trees import remove_tree
from gofer.node import cancellable_task
from gofer.node.cancellable_task import ChoreFailed
from gofer.node.folders.mapped import FolderFailed, FolderStopped
from gofer.node.folders.progress import Event, FolderProgress
from gofer.node.uploader.node_uploader import PATIENCE_S, REFUSALS, REFUSED_PATIENCE_S
from gofer.objects.facts import ObjectInfo, ObjectsError

_TRY_S = 2.0
# Beside the run's folder: outputs and files until they take their place, and what they are.
_BESIDE = "past"
_FILES_BESIDE = "past-files"
_BROUGHT = "brought.jsonl"

Stamp = Tuple[int, int]


def stamp(status: os.stat_result) -> Stamp:
    """What tells a version of a file from another."""
    return status.st_size, status.st_mtime_ns


class RestoredOutputs(NamedTuple):
    """The outputs that were brought, by their keys, as they came. With `is_ours`, what the command removes of
    them goes from the store too, since no other node could miss it.
    """

    is_ours: bool
    stamps: Dict[str, Stamp]


def read(spool: str) -> Optional[RestoredOutputs]:
    """What was brought to this spool; None when nobody did."""
    try:
        with open(os.path.join(spool, _BROUGHT), "rb") as file:
            first, *lines = [json.loads(line) for line in file]
    except FileNotFoundError:
        return None
    return RestoredOutputs(bool(first["ours"]), {str(key): (int(size), int(at)) for key, size, at in lines})


class Past(NamedTuple):
    """The outputs of one run in the store that `spec` opens, and the spool they belong in; `is_ours` when the
    run has no other node. `node` is this one, `attempt` the one that begins.
    """

    spec: Mapping[str, Any]
    spool: str
    run_id: str
    is_ours: bool
    node: int = 0
    attempt: int = 1

    def bring(self, log: str, event: Event, keep_on: Callable[[int], bool]) -> None:
        """Have them here; at once when they are. Adds a line to `log` that says how much it was.

        A store that is away is waited for. FolderFailed or FolderStopped; `keep_on` is as in `chore.do`.
        """
        if self._is_here():
            return
        began = time.monotonic()
        progress = FolderProgress(event, "outputs", "past")
        progress.tell("copying")
        try:
            cancellable_task.do(lambda say: _bring(self, say), hear=progress.hear, keep_on=keep_on)
        except cancellable_task.ChoreStopped:
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
        places = [os.path.join(self.spool, name, "tree") for name in (_BESIDE, _FILES_BESIDE)]
        return read(self.spool) is not None and not any(os.path.exists(one) for one in places)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _bring(past: Past, say: Say) -> None:
    """In a child. What has arrived when it fails is there for the next try."""
    keys = {_BESIDE: run_layout.outputs_key(past.run_id), _FILES_BESIDE: run_layout.files_key(past.run_id)}
    trees = {name: _fetch(past, key, name, say) for name, key in keys.items()}
    _patiently(lambda: _fetch_list(past))
    lines = [files.encode({"ours": past.is_ours}) + b"\n"]
    for name, tree in trees.items():
        lines += _written(tree, keys[name])
    files.write_whole(os.path.join(past.spool, _BROUGHT), b"".join(lines))
    for name, tree in trees.items():
        place = os.path.join(past.spool, keys[name])
        os.makedirs(place, exist_ok=True)
        if os.listdir(place):  # it took its place before it was interrupted
            remove_tree(tree)
            continue
        os.chmod(tree, os.stat(place).st_mode & 0o777)
        os.rename(tree, place)


def _fetch(past: Past, key: str, name: str, say: Say) -> str:
    """All below a key of the store, in a folder beside the run's: where that is."""
    from gofer.node.folders import copy

    prefix = past.spec.get("prefix", "")
    spec = {**past.spec, "prefix": f"{prefix}/{key}" if prefix else key}
    beside = os.path.join(past.spool, name)
    _patiently(lambda: copy.copy(spec, beside, {"run": past.run_id}, say))
    tree = copy.tree_of(beside)
    _patiently(lambda: _restore(spec, tree))
    return tree


def _fetch_list(past: Past) -> None:
    """The list of kept files of the last attempt in which this node left one."""
    from gofer.objects import open_objects
    from gofer.objects.facts import ObjectNotFound

    objects = open_objects(past.spec)
    for attempt in range(past.attempt - 1, 0, -1):
        key = f"{run_layout.node_key(past.run_id, attempt, past.node)}/{run_layout.FILE_LIST}"
        try:
            data = objects.get(key)
        except ObjectNotFound:
            continue
        files.write_whole(os.path.join(past.spool, run_layout.FILE_LIST), data)
        return


def _restore(spec: Mapping[str, Any], tree: str) -> None:
    """Times as they were on the node that wrote the files: programs take the newest for the last. And what
    may be executed, where the listing that the copy went by does not say it.
    """
    from gofer.core.parallel import each
    from gofer.node.folders.copy import AT_ONCE
    from gofer.node.folders.remote import RemoteFolder, is_executable, mtime_ns, stamp_ns

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


def _written(tree: str, key: str) -> List[bytes]:
    lines: List[bytes] = []
    for where, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(where, name)
            own = os.path.normpath(os.path.join(key, os.path.relpath(path, tree)))
            lines.append(files.encode([own, *stamp(os.stat(path))]) + b"\n")
    return lines


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
