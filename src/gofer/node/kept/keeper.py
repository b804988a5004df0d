"""Keep what a command wrote beside its code: move new and changed files of its working copy to `files/` of
the run.

A file is renamed if the store is on the same disk, else copied. When the files exceed the limit, the working
copy stays where it is if the disk outlives the run; on other disks the newest files are kept.
"""

from __future__ import annotations

import filecmp
import os
import stat
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from gofer.core import files, private_folder, run_layout
from gofer.core.code import trees
from gofer.core.launch import NodePlace
from gofer.core.outcome import Outcome
from gofer.core.secrets.secret_files import looks_like_secret
from gofer.core.states import Reason, State
from gofer.node import continued_files, spawn
from gofer.node.code import working_copy
from gofer.node.code.working_copy import Changes, Contents
from gofer.node.events import Event, EventLog
from gofer.node.exit_record import AttemptFailed
from gofer.node.kept import copy_record, records, rules, stayed
from gofer.node.kept.carrier import CarriedCopy, FileCarrier, carried_paths, prefix_of
from gofer.node.kept.copy_record import CopyRecord
from gofer.node.kept.limit import Keeping, KeepLimit
from gofer.node.kept.records import KeptFile, KeptFiles, describe_files, list_folder
from gofer.node.kept.rules import Candidate, KeepRules, size_text
from gofer.node.kept.same_contents import same_as_code
from gofer.node.kept.tally import FileTally
from gofer.node.task import Task

# The folder of working copies that exceed the limit, and the file that counts the kept bytes of a group.
KEPT = "kept"
KEPT_BYTES = "kept-bytes"
_MOST_NAMES = 4
_OUTPUT_FOLDER = "$GOFER_OUTPUT_DIR"


class FileKeeper:
    """Keeps the files of one node's share of an attempt. Call `prepare`, then `begin` before the command,
    then `finish` after all its processes have ended. Main thread only. Files that cannot be kept are named in
    the record, and do not fail the run.
    """

    def __init__(self, task: Task, place: NodePlace, keeping: Keeping) -> None:
        self._task = task
        self._place = place
        self._keeping = keeping
        self._rules = KeepRules.of(task.request)
        self._limit = KeepLimit(self._rules, keeping, task.code, is_folder=task.private.store is None)
        self._top = os.path.join(task.store, run_layout.files_key(place.run_id))
        self._staged: Contents = {}
        self._staged_file: Callable[[], Optional[str]] = lambda: None
        self._before: Contents = {}
        self._restored: Contents = {}
        self._made: Set[str] = set()
        self._carrier: Optional[FileCarrier] = None
        self._has_carried = False
        self._is_resumed = False
        self.changes: Optional[Changes] = None

    def prepare(
        self,
        staged: Optional[Contents],
        event: Event,
        staged_file: Callable[[], Optional[str]] = lambda: None,
    ) -> None:
        """Restore the files of earlier attempts of this node into the new working copy, whose contents are
        `staged`.

        Without earlier attempts, restore the files of the run that this run continues, if any. When `staged`
        is None, the copy is scanned. `staged_file` names a file with the contents, if there is one: see
        gofer.node.kept.copy_record. AttemptFailed when a file cannot be restored.
        """
        self._staged_file = staged_file
        try:
            self._staged = self._before = working_copy.scan(self._task.code) if staged is None else staged
            earlier, copy = self._earlier()
            # Links come last, so that no file is written through a link.
            for one in sorted(earlier, key=lambda one: one.kind == records.LINK):
                self._restore_one(one, copy)
            self._limit.counted = self._counted(earlier)
            if not earlier:
                tops = self._keeping.copies
                self._restored.update(continued_files.restore(self._task, self._place, self._staged, tops))
        except OSError as error:
            words = f"the files of earlier attempts could not be restored: {error}"
            raise AttemptFailed(Outcome(State.FAILED, Reason.STAGING, words)) from error
        if self._restored:
            event("restored", files=len(self._restored))

    def _earlier(self) -> Tuple[List[KeptFile], Optional[str]]:
        """The list of the last attempt of this node that left one, here or brought from the store; and the
        working copy of that attempt, if it stayed on this machine.
        """
        place = self._place
        attempts = range(place.attempt - 1, 0, -1)
        keys = [(run_layout.node_key(place.run_id, one, place.node), [one]) for one in attempts]
        for key, numbers in [*keys, ("", list(attempts))] if keys else []:
            try:
                with open(os.path.join(self._task.store, key, run_layout.FILE_LIST), "rb") as file:
                    listed = list(records.decode_list(file.read()))
            except OSError:
                continue
            copy = stayed.find(self._keeping.copies, place.run_id, numbers, place.node)
            places = (records.FILES,) if copy is None else (records.FILES, records.COPY)
            return [one for one in listed if one.place in places], copy
        return [], None

    def _restore_one(self, one: KeptFile, copy: Optional[str]) -> None:
        path = one.path if one.place == records.COPY else self._own_path(one.path)
        code = os.path.realpath(self._task.code)
        target = os.path.join(code, path)
        above = os.path.dirname(target)
        if not (os.path.realpath(above) + "/").startswith(code + "/"):
            return  # a link of the code leads out of the copy
        os.makedirs(above, exist_ok=True)
        if one.kind == records.FOLDER:
            os.makedirs(target, exist_ok=True)
        elif one.target is not None:
            trees.remove_tree(target)
            os.symlink(one.target, target)
        elif one.place == records.COPY:
            trees.remove_tree(target)
            stayed.take(os.path.join(copy or "", one.path), target)
        else:
            source = os.path.join(self._top, one.path)
            trees.remove_tree(target)
            trees.copy_file(source if os.path.lexists(source) else os.path.join(self._top, path), target)
        if one.kind != records.LINK:
            os.chmod(target, one.mode)
            os.utime(target, ns=(one.mtime_ns, one.mtime_ns))
        self._restored[path] = working_copy.stamp(os.lstat(target))

    def _counted(self, earlier: List[KeptFile]) -> int:
        """How many bytes of an earlier attempt's files counted against the limits."""
        kept = [one for one in earlier if one.place == records.FILES]
        return sum(one.size for one in kept if not self._rules.is_output(self._own_path(one.path)))

    def _own_path(self, stored: str) -> str:
        prefix = run_layout.node_files_path(self._place.node, "")
        return stored[len(prefix) :] if stored.startswith(prefix) else stored

    def begin(self, spared: Set[int]) -> None:
        """Remember the contents of the copy; call it right before the command. Files of set-up are not kept,
        since each attempt makes them again.
        """
        if self._task.request.setup:
            self._before = working_copy.scan(self._task.code)
            for path, stamp in self._restored.items():
                if self._before.get(path) == stamp:
                    del self._before[path]
                    if path in self._staged:
                        self._before[path] = self._staged[path]
        self._write_record()
        carries = bool(self._task.request.sync)
        if self._task.private.store is not None and (carries or not self._keeping.copies):
            self._carrier = FileCarrier(self._carried_copy(carries), spared)
            self._has_carried = True

    def list_written(self) -> List[str]:
        """The files that the command has written beside its code so far, whatever their size."""
        now = working_copy.scan(self._task.code)
        found = rules.choose(self._rules, now, working_copy.compare(self._before, now))
        return [one.path for one in (*found.outputs, *found.others) if not one.is_folder]

    def _write_record(self) -> None:
        if self._keeping.record is None:
            return
        tally = self._keeping.tally.path if isinstance(self._keeping.tally, FileTally) else None
        kept = (self._before, self._restored, self._limit.counted, self._keeping.copies, tally)
        try:
            contents = self._staged_file() if self._before is self._staged else None
            copy_record.write(self._keeping.record, CopyRecord(self._task.code, *kept), contents)
        except OSError:
            pass  # the disk is full: the files are still kept, unless the agent is killed

    def resume(self, record: CopyRecord) -> None:
        """Call instead of `prepare` and `begin`, when a killed agent has already done both."""
        self._before, self._restored = record.before, record.restored
        self._limit.counted = record.counted
        self._is_resumed = True

    def _carried_copy(self, carries: bool) -> CarriedCopy:
        listing = self._in_node_folder(run_layout.FILE_LIST)
        event_log = EventLog(os.path.dirname(listing))

        def warn(words: str) -> None:
            event_log.note("keep-limit", words=words)
            self._write_to_log(words)

        return CarriedCopy(
            self._task.code,
            self._before,
            self._rules,
            self._top,
            prefix_of(self._place.node),
            listing,
            carries,
            warn,
            event_log,
        )

    def close(self) -> None:
        """Stop carrying. Idempotent."""
        if self._carrier is not None:
            self._carrier.end()
            self._carrier = None

    def _write_to_log(self, words: str) -> None:
        try:
            spawn.append_line(self._in_node_folder(run_layout.rank_log(self._place.ranks[0])), words)
        except OSError:
            pass  # the events and the exit record contain it too

    def finish(self, event: Event) -> KeptFiles:
        """Keep the files, write the list of files, and note an event with the totals. Blocks while it
        copies.
        """
        self.close()
        kept = self._finish()
        if kept.files or kept.left_count or kept.copy:
            event("kept", **kept.encode())
        return kept

    def _finish(self) -> KeptFiles:
        try:
            now = working_copy.scan(self._task.code, opens=True)
        except OSError:
            return KeptFiles()  # the command has removed the copy
        changes = working_copy.compare(self._before, now)
        self.changes = changes if self._before is self._staged else working_copy.compare(self._staged, now)
        same = same_as_code(self._task, changes.changed, self._before, now)
        differing = [path for path in changes.changed if path not in same]
        found = rules.choose(self._rules, now, changes._replace(changed=differing))
        wanted, too_much, limit = self._limit.divide(found)
        folders = self._folders_of(wanted)
        listed, failed = self._move(wanted)
        self._dress(folders)
        copy = None
        if failed or (too_much and self._rules.limit):
            copy = self._stay()
        elif self._is_resumed:
            listed += self._moved_before(listed)
        else:
            self._remove_gone({one.path for one in wanted})
        lost = [] if copy else too_much
        if limit or copy:
            self._write_to_log(_limit_words(limit, lost, copy))
        outputs, secrets = self._outputs()
        left = [*((one.path, records.TOO_MUCH) for one in lost), *failed, *found.left, *secrets]
        if copy:
            staying = [*(one.path for one in too_much), *(path for path, _ in failed)]
            listed += describe_files(copy, staying, records.COPY)
        self._write_list([*listed, *outputs])
        return _sums(wanted, failed, left, copy)

    # -- moving

    def _move(self, wanted: Iterable[Candidate]) -> Tuple[List[KeptFile], List[Tuple[str, str]]]:
        """Move the files. Those that were moved, and those that could not be moved with the reason."""
        listed: List[KeptFile] = []
        failed: List[Tuple[str, str]] = []
        for one in wanted:
            try:
                listed.append(self._move_one(one))
            except OSError as error:
                failed.append((one.path, error.strerror or str(error)))
        return listed, failed

    def _move_one(self, one: Candidate) -> KeptFile:
        source = os.path.join(self._task.code, one.path)
        status = os.lstat(source)
        target = os.readlink(source) if stat.S_ISLNK(status.st_mode) else None
        name = run_layout.node_files_path(self._place.node, one.path)
        destination = os.path.join(self._top, name)
        if one.is_folder:
            self._make(destination)
        else:
            self._make(os.path.dirname(destination))
            self._rename(source, destination)
        if self._place.nodes > 1 and not one.is_folder:
            name = self._without_double(one.path)
        return records.describe(records.FILES, name, status, target)

    def _folders_of(self, wanted: Iterable[Candidate]) -> Dict[str, os.stat_result]:
        """The folders of the copy that these are in, with what they are before anything is moved."""
        found: Dict[str, os.stat_result] = {}
        for one in wanted:
            path = one.path if one.is_folder else os.path.dirname(one.path)
            while path and path not in found:
                try:
                    found[path] = os.lstat(os.path.join(self._task.code, path))
                except OSError:
                    break
                path = os.path.dirname(path)
        return found

    def _dress(self, folders: Dict[str, os.stat_result]) -> None:
        """Give folders below `files/` the modes and times of the copy's. Their owner can enter each."""
        for path, status in folders.items():
            target = os.path.join(self._top, run_layout.node_files_path(self._place.node, path))
            try:
                if stat.S_ISDIR(os.lstat(target).st_mode):
                    os.chmod(target, status.st_mode & 0o1777 | 0o700)
                    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
            except OSError:
                continue  # the files are there, which counts more

    def _rename(self, source: str, destination: str) -> None:
        try:
            trees.move(source, destination)
        except PermissionError:
            trees.open_folder(os.path.dirname(source))
            trees.move(source, destination)

    def _make(self, path: str) -> None:
        """Make a folder below `files/`. A file of an earlier attempt in its place is removed."""
        if path in self._made:
            return
        try:
            os.makedirs(path, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            self._clear_way(path)
            os.makedirs(path, exist_ok=True)
        self._made.add(path)

    def _clear_way(self, path: str) -> None:
        while len(path) > len(self._top):
            if os.path.lexists(path) and not os.path.isdir(path):
                os.unlink(path)
            path = os.path.dirname(path)

    def _without_double(self, path: str) -> str:
        """The final name of a moved file. If the file is equal to that of node 0, only the one of node 0
        stays.
        """
        node = self._place.node
        plain = os.path.join(self._top, path)
        others = range(1, self._place.nodes) if node == 0 else [node]
        if path.startswith("node-"):  # the name could be mistaken for another node's file
            others = []
        for other in others:
            own = os.path.join(self._top, run_layout.node_files_path(other, path))
            if _are_equal(plain, own):
                files.remove(own)
                return path
        return run_layout.node_files_path(node, path)

    def _remove_gone(self, kept: Set[str]) -> None:
        """Remove files from `files/` that an earlier attempt or the carrier put there, and that the command
        has removed.
        """
        if not self._restored and not self._has_carried:
            return
        node, listing = self._place.node, self._in_node_folder(run_layout.FILE_LIST)
        earlier = {run_layout.node_files_path(node, path) for path in self._restored} | carried_paths(listing)
        for name in earlier - {run_layout.node_files_path(node, path) for path in kept}:
            trees.remove_tree(os.path.join(self._top, name))

    def _moved_before(self, listed: List[KeptFile]) -> List[KeptFile]:
        """Other files of this node in `files/`: the agent may have been killed after it had moved them."""
        names, prefix = {one.path for one in listed}, prefix_of(self._place.node)
        others = [one for one in list_folder(records.FILES, self._top) if one.path not in names]
        if prefix:
            return [one for one in others if one.path.startswith(prefix)]
        return [one for one in others if self._place.nodes == 1 or not one.path.startswith("node-")]

    # -- what stays

    def _stay(self) -> Optional[str]:
        """Move the working copy to a place where it outlives the run; its path, or None when there is no such
        place.
        """
        place = self._place
        name = stayed.name_of(place.run_id, place.attempt, place.node)
        for top in self._keeping.copies:
            path = os.path.join(top, name)
            try:
                private_folder.make_missing(top)
                os.chdir("/")
                trees.open_folder(self._task.code)
                trees.move(self._task.code, path)
                os.utime(path)  # `gofer prune` goes by this time
            except OSError:
                continue
            self.changes = None
            return path
        return None

    # -- the list

    def _outputs(self) -> Tuple[List[KeptFile], List[Tuple[str, str]]]:
        """The files in the output folder. Files that look like secrets are removed from the folder, and
        returned apart with the reason.
        """
        top = os.path.join(self._task.store, run_layout.outputs_key(self._place.run_id))
        listed = list_folder(records.OUTPUTS, top)
        secrets = [one for one in listed if one.kind != records.FOLDER and looks_like_secret(one.path)]
        for one in secrets:
            trees.remove_tree(os.path.join(top, one.path))
        left = [(f"{_OUTPUT_FOLDER}/{one.path}", records.SECRET) for one in secrets]
        return [one for one in listed if one not in secrets], left

    def _in_node_folder(self, name: str) -> str:
        place = self._place
        return os.path.join(
            self._task.store, run_layout.node_key(place.run_id, place.attempt, place.node), name
        )

    def _write_list(self, listed: List[KeptFile]) -> None:
        if not listed:
            return
        try:
            files.write_whole(self._in_node_folder(run_layout.FILE_LIST), records.encode_list(listed))
        except OSError:
            pass  # the disk is full: the files themselves are there


def _limit_words(limit: Optional[str], lost: List[Candidate], copy: Optional[str]) -> str:
    """A line for the end of the log: which files are not kept, or where the working copy stays."""
    if limit is None:
        return f"some files could not be kept, and the working copy stays in {copy}"
    more = f"the command wrote more beside the code than `{limit}` allows"
    if copy is not None:
        return f"{more}; the working copy stays in {copy}"
    names = ", ".join(one.path for one in lost[:_MOST_NAMES]) + (", …" if len(lost) > _MOST_NAMES else "")
    size = size_text(sum(one.size for one in lost))
    return f"{more}; not kept: {len(lost):,} of the files, {size}: {names}"


def _sums(
    wanted: List[Candidate], failed: List[Tuple[str, str]], left: List[Tuple[str, str]], copy: Optional[str]
) -> KeptFiles:
    lost = {path for path, _ in failed}
    kept = [one for one in wanted if one.path not in lost and not one.is_folder]
    return KeptFiles(
        len(kept),
        sum(one.size for one in kept),
        sum(one.is_changed for one in kept),
        tuple(left[: records.MOST_LEFT]),
        len(left),
        copy,
    )


def _are_equal(one: str, other: str) -> bool:
    """Whether both are links to the same place, or files with the same bytes."""
    try:
        if os.path.islink(one) or os.path.islink(other):
            return os.path.islink(one) and os.path.islink(other) and os.readlink(one) == os.readlink(other)
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False
