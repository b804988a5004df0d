"""A run that continues another one: its files and outputs are in place before the command starts.

`restore_from` of the request names the other run, in the same store: `{"run": id, "rows": indices or null}`.
Of an array, `rows` has for each row the index of the row that it continues. A file of the code stays.
"""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Iterator, List, Optional

from gofer.core import run_layout, trees
from gofer.core.launch import NodePlace
from gofer.core.numerals import parse_count
from gofer.node import cancellable_task, working_copy
from gofer.node.cancellable_task import ChoreFailed
from gofer.node.folders.mapped import FolderFailed, FolderStopped
from gofer.node.kept import records
from gofer.node.kept.records import KeptFile
from gofer.node.task import Task
from gofer.node.working_copy import Contents, Stamp

_BROUGHT = ".continued"
_PIECE_BYTES = 1 << 20


def earlier_run(task: Task) -> Optional[str]:
    """The id of the run that this one continues; None for a run that continues none."""
    found = task.request.get("restore_from")
    if found is None:
        return None
    if found["rows"] is None:
        return str(found["run"])
    index = int(task.place.run_id.rpartition("-")[2])
    return f"{found['run']}-{found['rows'][index]}"


def bring(task: Task, keep_on: Callable[[int], bool]) -> None:
    """Have the folder of the earlier run on this machine, where the store is not a folder.

    FolderFailed or FolderStopped; `keep_on` is as in `chore.do`.
    """
    run_id, store = earlier_run(task), task.private.store
    if run_id is None or store is None:
        return
    from gofer.node.folders import copy

    key, prefix = run_layout.run_key(run_id), store.get("prefix", "")
    spec = {**store, "prefix": f"{prefix}/{key}" if prefix else key}
    try:
        cancellable_task.do(
            lambda say: copy.copy(spec, task.code + _BROUGHT, {"run": run_id}, say),
            hear=lambda message: None,
            keep_on=keep_on,
        )
    except cancellable_task.ChoreStopped:
        raise FolderStopped(f"while the files of {run_id} were brought") from None
    except (ChoreFailed, OSError) as error:
        raise FolderFailed(f"the files of {run_id} could not be brought from the store: {error}") from error


def restore(task: Task, place: NodePlace, staged: Contents) -> Contents:
    """Put the files of the earlier run into the working copy, and its outputs where outputs go.

    The files that were put into the copy, by path. A file of the code, `staged`, stays as it is there.
    OSError when one cannot be written.
    """
    run_id = earlier_run(task)
    if run_id is None:
        return {}
    brought = task.code + _BROUGHT
    earlier = os.path.join(task.store, run_layout.run_key(run_id))
    if task.private.store is not None:
        earlier = os.path.join(brought, "tree")
    listed = _listed(earlier, place.node)
    if place.attempt == 1 and (place.node == 0 or task.private.store is not None):
        _put(listed, records.OUTPUTS, earlier, task.output_folder, {})
    found = _put(listed, records.FILES, earlier, task.code, staged, node=place.node)
    trees.remove_tree(brought)
    return found


def _listed(earlier: str, node: int) -> List[KeptFile]:
    """The list of the last attempt; that of node 0 where the run had no such node.

    A lost node leaves no list, and neither did an older gofer: then it is what lies there.
    """
    try:
        attempts = os.listdir(os.path.join(earlier, "attempts"))
    except OSError:
        attempts = []
    for attempt in sorted(filter(None, map(parse_count, attempts)), reverse=True):
        for number in (node, 0):
            path = os.path.join(earlier, "attempts", str(attempt), f"node-{number}", run_layout.FILE_LIST)
            try:
                with open(path, "rb") as file:
                    return list(records.decode_list(file.read()))
            except OSError:
                continue
    return [one for place in (records.OUTPUTS, records.FILES) for one in _found_in(earlier, place)]


def _found_in(earlier: str, place: str) -> Iterator[KeptFile]:
    """The files, links and empty folders below `place` of the earlier run's folder."""
    top = os.path.join(earlier, place)
    for folder, names, others in os.walk(top):
        links = [name for name in names if os.path.islink(os.path.join(folder, name))]
        empty = [] if names or others or folder == top else [folder]
        for path in [*(os.path.join(folder, name) for name in (*links, *others)), *empty]:
            status = os.lstat(path)
            if stat.S_IFMT(status.st_mode) in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
                target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
                yield records.describe(place, os.path.relpath(path, top), status, target)


def _put(
    listed: List[KeptFile], place: str, earlier: str, top: str, staged: Contents, *, node: int = 0
) -> Dict[str, Stamp]:
    """Links last, so that no file is written through one."""
    found: Dict[str, Stamp] = {}
    prefix = run_layout.node_files_path(node, "")
    for one in sorted(listed, key=lambda one: one.kind == records.LINK):
        path = one.path[len(prefix) :] if node and one.path.startswith(prefix) else one.path
        if one.place != place or path in staged:
            continue
        whole = os.path.join(top, path)
        if os.path.lexists(whole) or not _is_inside(os.path.dirname(whole), top):
            continue
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        _put_one(one, os.path.join(earlier, place, one.path), whole)
        found[path] = working_copy.stamp(os.lstat(whole))
    return found


def _put_one(one: KeptFile, source: str, whole: str) -> None:
    if one.kind == records.LINK:
        os.symlink(one.target or "", whole)
        return
    if one.kind == records.FOLDER:
        os.makedirs(whole, exist_ok=True)
    elif one.allocated is None or os.stat(source).st_blocks * 512 < one.size:
        trees.copy_file(source, whole)
    else:  # what came from an object store has lost its holes
        with open(source, "rb") as file, open(whole, "xb") as sparse:
            trees.write_pieces(sparse, iter(lambda: file.read(_PIECE_BYTES), b""), holes=True)
    os.chmod(whole, one.mode & 0o1777)
    os.utime(whole, ns=(one.mtime_ns, one.mtime_ns))


def _is_inside(path: str, top: str) -> bool:
    return (os.path.realpath(path) + "/").startswith(os.path.realpath(top) + "/")
