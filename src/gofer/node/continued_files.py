"""Give a run that continues another run the files and outputs of that run, before the command starts.

`restore_from` of the request names the other run, in the same store: `{"run": id, "rows": indices or null}`.
For an array, `rows` has the index of the earlier row for each row. A file of the code is not replaced.
"""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from gofer.core import run_layout
from gofer.core.code import trees
from gofer.core.json_text import parse_count
from gofer.core.launch import NodePlace
from gofer.core.outcome import Outcome
from gofer.core.states import Reason, State
from gofer.core.store_spec import StoreSpec
from gofer.node import cancellable_task
from gofer.node.cancellable_task import WorkFailed
from gofer.node.code import working_copy
from gofer.node.code.working_copy import Contents, Stamp
from gofer.node.exit_record import AttemptFailed
from gofer.node.folders import copy
from gofer.node.folders.mapped import FolderFailed, FolderStopped
from gofer.node.kept import records, stayed
from gofer.node.kept.records import KeptFile
from gofer.node.task import Task

_COPIED = ".continued"
_PIECE_BYTES = 1 << 20


def earlier_run(task: Task) -> Optional[str]:
    """The id of the run that this run continues; None when it continues none."""
    found = task.request.restore_from
    if found is None:
        return None
    if found["rows"] is None:
        return str(found["run"])
    index = int(task.place.run_id.rpartition("-")[2])
    return f"{found['run']}-{found['rows'][index]}"


def bring(task: Task, keep_on: Callable[[int], bool]) -> None:
    """Copy the folder of the earlier run to this machine, if the store is not a folder. Blocks.

    Raises FolderFailed or FolderStopped. `keep_on` is as in `cancellable_task.run`.
    """
    run_id, store = earlier_run(task), task.private.store
    if run_id is None or store is None:
        return
    key, prefix = run_layout.run_key(run_id), store.get("prefix", "")
    spec: StoreSpec = {**store, "prefix": f"{prefix}/{key}" if prefix else key}
    try:
        cancellable_task.run(
            lambda send_message: copy.copy(spec, task.code + _COPIED, {"run": run_id}, send_message),
            on_message=lambda message: None,
            keep_on=keep_on,
        )
    except cancellable_task.WorkStopped:
        raise FolderStopped(f"while the files of {run_id} were copied") from None
    except (WorkFailed, OSError) as error:
        raise FolderFailed(f"the files of {run_id} could not be copied from the store: {error}") from error


def restore(task: Task, place: NodePlace, staged: Contents, copies: Iterable[str]) -> Contents:
    """Put the files of the earlier run into the working copy, and its outputs into the run's output folder.

    Returns the files that were put into the copy, by path. Files of the code, `staged`, are not replaced.
    Files that were more than may be kept are in a working copy below one of `copies`. AttemptFailed when
    that working copy is not on this machine; OSError when a file cannot be written.
    """
    run_id = earlier_run(task)
    if run_id is None:
        return {}
    copied = task.code + _COPIED
    earlier = os.path.join(task.store, run_layout.run_key(run_id))
    if task.private.store is not None:
        earlier = os.path.join(copied, "tree")
    listed, attempt, node = _listed(earlier, place.node)
    if place.attempt == 1 and (place.node == 0 or task.private.store is not None):
        _put(listed, records.OUTPUTS, os.path.join(earlier, records.OUTPUTS), task.output_folder, {})
    files = os.path.join(earlier, records.FILES)
    found = _put(listed, records.FILES, files, task.code, staged, node=place.node)
    if any(one.place == records.COPY for one in listed):
        copy = stayed.find(copies, run_id, [attempt], node)
        if copy is None:
            raise _is_elsewhere(run_id)
        found.update(_put(listed, records.COPY, copy, task.code, staged))
    trees.remove_tree(copied)
    return found


def _is_elsewhere(run_id: str) -> AttemptFailed:
    words = (
        f"{run_id} wrote more than `keep` allows, and the working copy in which these files stayed is not "
        f"on this machine; `gofer extract {run_id} DIR` brings them"
    )
    return AttemptFailed(Outcome(State.FAILED, Reason.STAGING, words))


def _listed(earlier: str, node: int) -> Tuple[List[KeptFile], int, int]:
    """The file list of the last attempt of this node, or of node 0 if the run had no such node.

    Returns the list, the number of the attempt and that of the node.
    A lost node leaves no list, and older versions of gofer wrote none. Then the files that are found are
    listed.
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
                    return list(records.decode_list(file.read())), attempt, number
            except OSError:
                continue
    found = [one for place in (records.OUTPUTS, records.FILES) for one in _found_in(earlier, place)]
    return found, 0, node


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
    listed: List[KeptFile], place: str, source: str, top: str, staged: Contents, *, node: int = 0
) -> Dict[str, Stamp]:
    """Put files of one place, which are below `source`, below `top`.

    Links are made last, so that no file is written through a link.
    """
    found: Dict[str, Stamp] = {}
    prefix = run_layout.node_files_path(node, "")
    for one in sorted(listed, key=lambda one: one.kind == records.LINK):
        path = one.path[len(prefix) :] if node and one.path.startswith(prefix) else one.path
        if one.place != place or path in staged:
            continue
        target = os.path.join(top, path)
        if os.path.lexists(target) or not _is_inside(os.path.dirname(target), top):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _put_one(one, os.path.join(source, one.path), target)
        found[path] = working_copy.stamp(os.lstat(target))
    return found


def _put_one(one: KeptFile, source: str, target: str) -> None:
    if one.kind == records.LINK:
        os.symlink(one.target or "", target)
        return
    if one.kind == records.FOLDER:
        os.makedirs(target, exist_ok=True)
    elif one.allocated is None or os.stat(source).st_blocks * 512 < one.size:
        trees.copy_file(source, target)
    else:  # an object store does not keep holes, so make them again
        with open(source, "rb") as file, open(target, "xb") as sparse:
            trees.write_pieces(sparse, iter(lambda: file.read(_PIECE_BYTES), b""), holes=True)
    os.chmod(target, one.mode & 0o1777)
    os.utime(target, ns=(one.mtime_ns, one.mtime_ns))


def _is_inside(path: str, top: str) -> bool:
    return (os.path.realpath(path) + "/").startswith(os.path.realpath(top) + "/")
