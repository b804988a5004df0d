"""Restore the outputs of earlier attempts from the object store to a node that does not have them.

The files that were kept of their working copies (`files/`) are restored in the same way, with their list. The
files are first copied to a folder beside the run's folder, and a record of them is written. Then all are
moved into place at once. So the uploader (`gofer.node.uploader.outputs`) finds either none or all of them,
and knows from the record which files are unchanged, even if another node has replaced them in the store in
the meantime.
"""

from __future__ import annotations

import json
import os
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from gofer.core import files, run_layout
from gofer.core.code.trees import remove_tree
from gofer.core.parallel import SendMessage, each
from gofer.core.store_spec import StoreSpec
from gofer.node import cancellable_task
from gofer.node.cancellable_task import WorkFailed
from gofer.node.events import Event, FolderProgress
from gofer.node.folders import copy
from gofer.node.folders.copy import AT_ONCE
from gofer.node.folders.mapped import FolderFailed, FolderStopped
from gofer.node.folders.remote import RemoteFolder, is_executable, mtime_ns, stamp_ns
from gofer.node.uploader.patience import retry_store
from gofer.objects import open_objects
from gofer.objects.facts import ObjectInfo, ObjectNotFound

_TRY_S = 2.0
# In the spool: folders for outputs and files before they are moved into place, and the record of them.
_BESIDE = "past"
_FILES_BESIDE = "past-files"
_RECORD = "brought.jsonl"

Stamp = Tuple[int, int]


def stamp(status: os.stat_result) -> Stamp:
    """A value that distinguishes versions of a file."""
    return status.st_size, status.st_mtime_ns


class RestoredOutputs(NamedTuple):
    """The restored files, by key, with their stamps. With `is_ours`, files that the command removes are also
    removed from the store, since no other node needs them.
    """

    is_ours: bool
    stamps: Dict[str, Stamp]


def read(spool: str) -> Optional[RestoredOutputs]:
    """The record of restored files in this spool; None when nothing was restored."""
    try:
        with open(os.path.join(spool, _RECORD), "rb") as file:
            first, *lines = [json.loads(line) for line in file]
    except FileNotFoundError:
        return None
    return RestoredOutputs(bool(first["ours"]), {str(key): (int(size), int(at)) for key, size, at in lines})


class EarlierOutputs(NamedTuple):
    """The outputs of earlier attempts of one run: the store (`spec`), and the spool to restore them to.
    `is_ours`: the run has no other node. `node` is this node; `attempt` is the one that begins.
    """

    spec: StoreSpec
    spool: str
    run_id: str
    is_ours: bool
    node: int = 0
    attempt: int = 1

    def bring(self, log: str, event: Event, keep_on: Callable[[int], bool]) -> None:
        """Restore the files, unless they are here already. Blocks. Adds a line to `log` that says how many.

        Waits for a store that does not answer. Raises FolderFailed or FolderStopped; `keep_on` is as in
        `cancellable_task.run`.
        """
        if self._is_here():
            return
        began = time.monotonic()
        progress = FolderProgress(event, "outputs", "past")
        progress.report("copying")
        try:
            cancellable_task.run(
                lambda send_message: _bring(self, send_message), on_message=progress.receive, keep_on=keep_on
            )
        except cancellable_task.WorkStopped:
            raise FolderStopped("while the outputs of earlier attempts were restored") from None
        except (WorkFailed, OSError) as error:
            words = f"the outputs of earlier attempts could not be restored from the store: {error}"
            raise FolderFailed(words) from error
        progress.report("copied")
        restored = read(self.spool)
        sizes = [size for size, _ in restored.stamps.values()] if restored else []
        words = f"restored {_count(len(sizes), 'file')} of the outputs, {_count(sum(sizes), 'byte')}"
        try:
            files.append(log, f"gofer: {words}, in {time.monotonic() - began:.1f} s\n".encode())
        except OSError:
            pass  # the disk is full, which the command will notice itself

    def _is_here(self) -> bool:
        """Whether the files are in place. If a folder beside still exists, an earlier restore was interrupted
        before the move.
        """
        places = [os.path.join(self.spool, name, "tree") for name in (_BESIDE, _FILES_BESIDE)]
        return read(self.spool) is not None and not any(os.path.exists(one) for one in places)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _bring(earlier: EarlierOutputs, send_message: SendMessage) -> None:
    """Runs in a child process. After a failure, files that have arrived are used by the next try."""
    keys = {
        _BESIDE: run_layout.outputs_key(earlier.run_id),
        _FILES_BESIDE: run_layout.files_key(earlier.run_id),
    }
    trees = {name: _fetch(earlier, key, name, send_message) for name, key in keys.items()}
    _retry(lambda: _fetch_list(earlier))
    lines = [files.encode({"ours": earlier.is_ours}) + b"\n"]
    for name, tree in trees.items():
        lines += _written(tree, keys[name])
    files.write_whole(os.path.join(earlier.spool, _RECORD), b"".join(lines))
    for name, tree in trees.items():
        place = os.path.join(earlier.spool, keys[name])
        os.makedirs(place, exist_ok=True)
        if os.listdir(place):  # an earlier, interrupted restore has already moved these files
            remove_tree(tree)
            continue
        os.chmod(tree, os.stat(place).st_mode & 0o777)
        os.rename(tree, place)


def _fetch(earlier: EarlierOutputs, key: str, name: str, send_message: SendMessage) -> str:
    """Copy everything below a key into a folder beside the run's folder; the path of the copy."""
    prefix = earlier.spec.get("prefix", "")
    spec: StoreSpec = {**earlier.spec, "prefix": f"{prefix}/{key}" if prefix else key}
    beside = os.path.join(earlier.spool, name)
    _retry(lambda: copy.copy(spec, beside, {"run": earlier.run_id}, send_message))
    tree = copy.tree_of(beside)
    _retry(lambda: _restore(spec, tree))
    return tree


def _fetch_list(earlier: EarlierOutputs) -> None:
    """Fetch the newest list of kept files that this node left in an earlier attempt."""
    objects = open_objects(earlier.spec)
    for attempt in range(earlier.attempt - 1, 0, -1):
        key = f"{run_layout.node_key(earlier.run_id, attempt, earlier.node)}/{run_layout.FILE_LIST}"
        try:
            data = objects.get(key)
        except ObjectNotFound:
            continue
        files.write_whole(os.path.join(earlier.spool, run_layout.FILE_LIST), data)
        return


def _restore(spec: StoreSpec, tree: str) -> None:
    """Set the original times of the files, since programs take the newest checkpoint for the last. Also set
    the execute permission, if the listing that was used for the copy did not have it.
    """
    remote = RemoteFolder(spec)

    def restore(info: ObjectInfo) -> None:
        path = os.path.join(tree, info.key)
        if not os.path.isfile(path) or os.stat(path).st_mtime_ns != stamp_ns(info):
            return  # the object has changed since it was copied
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


def _retry(act: Callable[[], None]) -> None:
    words = "the outputs of earlier attempts cannot be read from the store"
    retry_store(act, words=words, pause_s=_TRY_S)
