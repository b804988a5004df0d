"""Provide the mapped folders of one node's share of a run before the command starts, and send or release them
afterwards.

`./<name>` in the working copy is the folder: a link to the person's own folder (`link`), to the run's view of
a copy that all runs on the machine share (`copy`), or to a mount (`mount`), or a folder whose files go to the
store at the end (`upload`). Where a service has provided the folder itself, it is a link to the service's
folder, whatever the mode. The folder `.` is the working copy: what the command wrote beside its code goes to
the store at the end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from gofer.core import folder_modes, private_folder
from gofer.core.code import trees
from gofer.core.launch import NodePlace
from gofer.core.node_request import FolderFields, NodeRequest
from gofer.core.store_spec import StoreSpec
from gofer.node import cancellable_task
from gofer.node.cancellable_task import WorkFailed
from gofer.node.events import Event, FolderProgress
from gofer.node.folders import copy, rclone_mount, unmount, upload
from gofer.node.folders.copy_view import make_view
from gofer.node.folders.remote import RemoteFolder
from gofer.node.watch import Watch

# Modules for copies, mounts and uploads are imported where they are used: most runs have no folders.
if TYPE_CHECKING:
    from gofer.node.folders.private_mounts import PrivateMounts
    from gofer.node.folders.rclone_mount import Mount
    from gofer.node.folders.upload import ObjectVersions

_LOOK_S = 0.1
_MOST_NAMES = 3


class FolderContext(NamedTuple):
    """What mapped folders need from their node: gofer's folder, requests to stop, and child processes of
    gofer itself.

    `environment` is that of the run's commands.
    """

    queue_home: str
    watch: Watch
    spared: Set[int]
    environment: Mapping[str, str]


class FolderFailed(Exception):
    """A folder could not be provided. The text is for the person."""


class FolderStopped(Exception):
    """The run was stopped, or reached its time limit, before the folders were ready."""


class MappedFolders:
    """The folders of one share. Call `bring` first, and `finish` or `release` last. Main thread only.

    `notes` are sentences for the person about what happened to the folders; they go into the exit record.
    Views of copies are in `views_folder` (default: beside the working copy).
    """

    views_folder: Optional[str] = None

    def __init__(
        self,
        request: NodeRequest,
        specs: Mapping[str, StoreSpec],
        place: NodePlace,
        code: str,
        context: FolderContext,
        given: Optional[Mapping[str, str]] = None,
    ) -> None:
        """`given` are the paths of folders that a service provides, by name: gofer neither copies nor sends
        these.
        """
        self._folders: Dict[str, FolderFields] = {
            name: {**folder, "path": folder_modes.path_of_run(folder["path"], place.run_id)}
            for name, folder in (request.folders or {}).items()
        }
        for name, path in (given or {}).items():
            self._folders[name] = {"mode": folder_modes.LINK, "here": path}
        self._request_id = request.id
        self._specs = specs
        self._place = place
        self._code = code
        self._context = context
        self._held: List[int] = []
        self._mounts: Dict[str, Mount] = {}
        self._private: Optional[PrivateMounts] = None
        self._seen: Dict[str, ObjectVersions] = {}
        self._written: List[str] = []
        self.notes: List[str] = []

    def bring(self, event: Event, keep_on: Callable[[int], bool]) -> None:
        """Provide every folder in the working copy. Blocks. After FolderFailed or FolderStopped, call
        `release`.

        `keep_on` is as in `cancellable_task.run`.
        """
        for name, folder in self._folders.items():
            try:
                self._bring(name, folder, FolderProgress(event, name, folder["mode"]), keep_on)
            except cancellable_task.WorkStopped:
                raise FolderStopped(f"while the folder `{name}` was prepared") from None
            except (WorkFailed, OSError) as error:
                raise FolderFailed(f"{_named(name, folder)}: {error}{_advice(folder)}") from error

    def _bring(
        self,
        name: str,
        folder: FolderFields,
        progress: FolderProgress,
        keep_on: Callable[[int], bool],
    ) -> None:
        path = os.path.join(self._code, name)
        mode = folder["mode"]
        if mode == folder_modes.UPLOAD:
            if name != folder_modes.WORKING_COPY:
                _check_free(path, name)
                os.makedirs(path, exist_ok=True)
            self._seen[name] = self._read_versions(name, keep_on)
            return
        if mode == folder_modes.LINK:
            target = str(folder["here"])
            if not os.path.isdir(target):
                raise WorkFailed("it does not exist, or is not a folder")
            if folder.get("read_only"):
                target = self._read_only_view(name, target)
        elif mode == folder_modes.COPY:
            target = self._copy(name, folder, progress, keep_on)
        else:
            target = self._mount(name, folder, progress, keep_on)
        _link(target, path, name)

    def _spec(self, name: str) -> StoreSpec:
        if name not in self._specs:
            raise WorkFailed("the credentials of its store are no longer on this machine")
        spec = self._specs[name]
        return {**spec, "prefix": folder_modes.path_of_run(spec.get("prefix", ""), self._place.run_id)}

    def _read_versions(self, name: str, keep_on: Callable[[int], bool]) -> ObjectVersions:
        """The objects in the store before the command starts. Incomplete where the store cannot be listed."""
        seen = upload.ObjectVersions()
        try:
            spec = self._spec(name)
            cancellable_task.run(
                lambda send_message: upload.read_versions(spec, send_message),
                on_message=seen.receive,
                keep_on=keep_on,
            )
        except (WorkFailed, OSError):
            seen.is_whole = False
        return seen

    def _copy(
        self,
        name: str,
        folder: FolderFields,
        progress: FolderProgress,
        keep_on: Callable[[int], bool],
    ) -> str:
        spec = self._spec(name)
        where = copy.place_of(self._context.queue_home, folder["store"], folder["path"])
        facts = {"store": str(folder["store"]), "path": str(folder["path"])}
        progress.report("copying")

        def on_message(message: Dict[str, Any]) -> None:
            if "restored" in message:
                self._name_restored(name, message["restored"], progress)
            else:
                progress.receive(message)

        cancellable_task.run(
            lambda send_message: copy.copy(spec, where, facts, send_message),
            on_message=on_message,
            keep_on=keep_on,
        )
        self._held.append(copy.hold(where, self._place.run_id))
        tree = copy.tree_of(where)
        view = self._read_only(tree) if folder.get("read_only") else self._view(name, tree, keep_on)
        progress.report("copied")
        return view

    def _name_restored(self, name: str, found: Mapping[str, Any], progress: FolderProgress) -> None:
        names, runs = list(found["names"]), [run for run in found["runs"] if run != self._place.run_id]
        progress.report("restored", names=names[:_MOST_NAMES], count=len(names), runs=runs[-_MOST_NAMES:])
        words = f"{_listed(names)} of the copied folder `{name}` had been changed here"
        by = f" by {' or '.join(runs[-_MOST_NAMES:])}" if runs else ""
        self.notes.append(f"{words}{by}, and was fetched from the store again")

    @property
    def _mounts_here(self) -> PrivateMounts:
        if self._private is None:
            from gofer.node.folders.private_mounts import PrivateMounts

            self._private = PrivateMounts()
        return self._private

    def _read_only(self, tree: str) -> str:
        """Make a tree read-only. File modes are enough, except for root: for root a read-only mount is made,
        if possible.
        """
        if os.geteuid() == 0:
            self._mounts_here.read_only(tree)
        return tree

    def _read_only_view(self, name: str, folder: str) -> str:
        """A read-only view of a person's own folder, if possible; else the folder itself, and a note."""
        view = os.path.join(self._views, name)
        if os.geteuid() == 0:
            os.makedirs(view, exist_ok=True)
            if self._mounts_here.read_only_view(folder, view):
                return view
            os.rmdir(view)
        self.notes.append(f"nothing refused a write to the read-only folder `{name}`")
        return folder

    def _view(self, name: str, tree: str, keep_on: Callable[[int], bool]) -> str:
        """A folder that looks like the shared tree. Other runs do not see what the run writes there."""
        view = os.path.join(self._views, name)
        trees.remove_tree(view)
        if os.geteuid() == 0:
            os.makedirs(view)
            if self._mounts_here.copy_on_write(tree, view, f"{view}.changes"):
                return view
            os.rmdir(view)
        os.makedirs(self._views, exist_ok=True)
        cancellable_task.run(
            lambda send_message: make_view(tree, view), on_message=lambda _: None, keep_on=keep_on
        )
        return view

    @property
    def _views(self) -> str:
        """The folder for views. By default it is beside the working copy, so that both are removed together
        if this process is killed.
        """
        share = f"{self._place.run_id}.{self._place.attempt}.{self._place.node}"
        return os.path.join(self.views_folder or os.path.dirname(self._code), f"folders.{share}")

    def _mount(
        self,
        name: str,
        folder: FolderFields,
        progress: FolderProgress,
        keep_on: Callable[[int], bool],
    ) -> str:
        spec, read_only = self._spec(name), bool(folder.get("read_only"))
        if spec["kind"] == "file":
            path = _folder_on_disk(spec)
            return self._read_only_view(name, path) if read_only else path
        cancellable_task.run(  # if the store cannot be read, fail here, before the command starts
            lambda send_message: _touch(spec),
            on_message=progress.receive,
            keep_on=keep_on,
        )
        own = f"{os.path.basename(os.path.dirname(self._code))}.{name}"
        mount = rclone_mount.mount(
            spec,
            unmount.state_of(self._context.queue_home, self._request_id, own),
            {**self._context.environment, "GOFER_RUN_ID": self._place.run_id},
            lambda: keep_on(-1),
            read_only=read_only,
            options=folder.get("options") or (),
        )
        self._mounts[name] = mount
        self._context.spared.add(mount.pid)
        progress.report("mounted")
        return mount.at

    # -- after the command

    @property
    def sends_working_copy(self) -> bool:
        """Whether `finish` sends what the command wrote beside its code."""
        return folder_modes.WORKING_COPY in self._folders

    def finish(self, event: Event, *, started: bool, written: Sequence[str] = ()) -> Optional[str]:
        """Send files and release everything. Blocks. A sentence about what could not be sent, or None.

        `written` are the files of the working copy to send. Nothing is uploaded when the command was never
        started. A request to stop at once ends the upload.
        """
        problems = []
        self._written = [name for name in written if os.path.isfile(os.path.join(self._code, name))]
        for name, folder in self._folders.items():
            progress = FolderProgress(event, name, folder["mode"])
            words = None
            if name in self._mounts:
                words = self._unmount(name, progress)
            elif folder["mode"] == folder_modes.UPLOAD and started:
                words = self._upload(name, progress)
            if words:
                what = "new files" if name == folder_modes.WORKING_COPY else f"files in `{name}`"
                problems.append(f"the {what} were not sent to {_address(folder)}: {words}")
        self.release()
        return "; ".join(problems) or None

    def release(self) -> None:
        """Release copies and mounts. Nothing is sent. Idempotent."""
        if self._mounts or self._private is not None:
            os.chdir("/")
        for mount in self._mounts.values():
            mount.end()
            self._context.spared.discard(mount.pid)
        self._mounts.clear()
        if self._private is not None:
            self._private.release()
        if os.path.isdir(self._views):
            trees.remove_tree(self._views)
        while self._held:
            os.close(self._held.pop())

    def _upload(self, name: str, progress: FolderProgress) -> Optional[str]:
        path = os.path.join(self._code, name)
        is_copy = name == folder_modes.WORKING_COPY
        left = upload.FolderListing(self._written, []) if is_copy else upload.list_files(path)
        if left.others:
            progress.report("left out", names=left.others[:5], count=len(left.others))
        if not left.files:
            return None
        progress.report("uploading")
        try:
            spec = self._spec(name)
            sending = upload.FolderUpload(path, left.files, self._seen[name], self._mark)
            cancellable_task.run(
                lambda send_message: upload.upload(spec, sending, send_message),
                on_message=lambda message: self._report_upload(name, message, progress),
                keep_on=self._may_send,
            )
        except (WorkFailed, OSError, cancellable_task.WorkStopped) as error:
            words = (
                "the run was stopped at once"
                if isinstance(error, cancellable_task.WorkStopped)
                else str(error)
            )
            return words if is_copy else f"{words}; {self._keep(path, name)}"
        progress.report("uploaded")
        return None

    def _keep(self, path: str, name: str) -> str:
        """Move files that were not uploaded to a place where gofer never removes them; a phrase that says
        where.
        """
        kept = self._kept(name)
        try:
            private_folder.make_missing(os.path.dirname(kept))
            trees.move(path, kept)
        except OSError as error:
            return f"it could not be moved to {kept}: {error}"
        return f"it is kept in {kept}"

    @property
    def _mark(self) -> str:
        """A word in file names that distinguishes this node's files from those of other runs and nodes."""
        return (
            self._place.run_id if self._place.nodes == 1 else f"{self._place.run_id}-node-{self._place.node}"
        )

    def _report_upload(self, name: str, message: Dict[str, Any], progress: FolderProgress) -> None:
        if "replaced" not in message:
            progress.receive(message)
            return
        replaced, beside = list(message["replaced"]), list(message["beside"])
        shown = _address(self._folders[name]) if name == folder_modes.WORKING_COPY else name
        if replaced:
            progress.report("replaced", names=replaced[:_MOST_NAMES], count=len(replaced))
            words = f"replaced {_listed(replaced)} of `{shown}` in the store"
            self.notes.append(f"{words}, which had other contents")
        if beside:
            progress.report("kept beside", names=beside[:_MOST_NAMES], count=len(beside))
            stayed = _listed([one for one, _ in beside])
            words = f"{stayed} of `{shown}` changed in the store during the run, and was not replaced"
            self.notes.append(
                f"{words}; the version of this run is {_listed([other for _, other in beside])}"
            )

    def _may_send(self, fd: int) -> bool:
        self._context.watch.wait(fd, _LOOK_S)
        return not self._context.watch.is_firm

    def _unmount(self, name: str, progress: FolderProgress) -> Optional[str]:
        mount = self._mounts.pop(name)
        os.chdir("/")  # this process must not have its working folder in the mount

        def keep_on() -> bool:
            self._context.watch.wait(-1, _LOOK_S)
            return not self._context.watch.is_firm

        words = mount.flush(keep_on)
        kept = None if words is None else self._kept(name)
        mount.end(keep_cache=kept)
        self._context.spared.discard(mount.pid)
        progress.report("unmounted")
        return words and f"{words}; the unsent files are in {kept}"

    def _kept(self, name: str) -> str:
        """A place for unsent files, where gofer never removes them."""
        share = f"{self._place.run_id}.{self._place.attempt}.{self._place.node}"
        return os.path.join(self._context.queue_home, "unsent", f"{share}.{name}")


def _listed(names: List[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _address(folder: FolderFields) -> str:
    return f"{folder['store']}/{folder['path']}"


def _named(name: str, folder: FolderFields) -> str:
    return f"the folder `{name}` could not be read from {folder.get('here') or _address(folder)}"


def _advice(folder: FolderFields) -> str:
    return (
        "" if folder["mode"] == folder_modes.LINK else f"; `gofer ls {_address(folder)}` lists it from here"
    )


def _touch(spec: StoreSpec) -> None:
    next(iter(RemoteFolder(spec).list()), None)


def _folder_on_disk(spec: StoreSpec) -> str:
    if not os.path.isdir(spec["root"]):
        raise WorkFailed(f"the store's folder {spec['root']} does not exist")
    path = os.path.join(str(spec["root"]), spec.get("prefix", ""))
    os.makedirs(path, exist_ok=True)
    return path


def _link(target: str, path: str, name: str) -> None:
    """Make a link. A link to the same target may be left from a try that was killed, and is accepted."""
    _check_free(path, name)
    try:
        os.symlink(target, path)
    except FileExistsError:
        if os.readlink(path) != target:
            raise WorkFailed(f"the code already has a link `{name}`") from None


def _check_free(path: str, name: str) -> None:
    """Check that the name is free. An empty folder may be left from a try that was killed, and is removed."""
    if os.path.islink(path) or not os.path.lexists(path):
        return
    if not os.path.isdir(path) or os.listdir(path):
        raise WorkFailed(f"the code of the run already has a `{name}`")
    os.rmdir(path)
