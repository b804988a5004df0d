"""The mapped folders of one node's share of a run: there before the command starts, sent or let go after it.

`./<name>` in the working copy is the folder: a link to the person's own (`link`), to a copy that all runs
here share (`copy`), to a mount (`mount`), or a folder whose files go to the store at the end (`upload`).
Where a service has brought a folder itself, whatever its mode, the link is to where that is.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Set

from gofer.agent import chore, modes
from gofer.agent.chore import ChoreFailed
from gofer.agent.launch import Place
from gofer.agent.progress import Event, Progress
from gofer.agent.watch import Watch

# What moves and mounts is loaded where it is used: most runs have no folders.
if TYPE_CHECKING:
    from gofer.agent.mounting import Mount

_LOOK_S = 0.1


class Around(NamedTuple):
    """What a share has around it: the engine's folder, requests to stop, and children that are not the run's.

    `environment` is that of the run's commands.
    """

    engine: str
    watch: Watch
    spared: Set[int]
    environment: Mapping[str, str]


class FolderFailed(Exception):
    """A folder could not be brought, in words for the person."""


class FolderStopped(Exception):
    """It was asked to stop, or the time limit came, before the folders were there."""


class MappedFolders:
    """The folders of one share. `bring` first, `finish` or `release` last; main thread only."""

    def __init__(
        self,
        request: Mapping[str, Any],
        specs: Mapping[str, Mapping[str, Any]],
        place: Place,
        code: str,
        around: Around,
        given: Optional[Mapping[str, str]] = None,
    ) -> None:
        """`given` is where a service has folders of the run, by name: nothing is brought or sent for them."""
        self._folders: Dict[str, Dict[str, Any]] = dict(request.get("folders") or {})
        for name, path in (given or {}).items():
            self._folders[name] = {"mode": modes.LINK, "here": path}
        self._request_id = str(request["id"])
        self._specs = specs
        self._place = place
        self._code = code
        self._around = around
        self._held: List[int] = []
        self._mounts: Dict[str, Mount] = {}

    def bring(self, event: Event, keep_on: Callable[[int], bool]) -> None:
        """Have every folder in the working copy. FolderFailed or FolderStopped; `release` then.

        `keep_on` is as in `chore.do`.
        """
        for name, folder in self._folders.items():
            try:
                self._bring(name, folder, Progress(event, name, folder["mode"]), keep_on)
            except chore.ChoreStopped:
                raise FolderStopped(f"while the folder `{name}` was brought") from None
            except (ChoreFailed, OSError) as error:
                raise FolderFailed(f"{_named(name, folder)}: {error}{_advice(folder)}") from error

    def _bring(
        self, name: str, folder: Mapping[str, Any], progress: Progress, keep_on: Callable[[int], bool]
    ) -> None:
        path = os.path.join(self._code, name)
        mode = folder["mode"]
        if mode == modes.UPLOAD:
            _check_free(path, name)
            os.makedirs(path, exist_ok=True)
            return
        if mode == modes.LINK:
            target = str(folder["here"])
            if not os.path.isdir(target):
                raise ChoreFailed("it is not there, or is no folder")
        elif mode == modes.COPY:
            target = self._copy(name, folder, progress, keep_on)
        else:
            target = self._mount(name, progress, keep_on, read_only=bool(folder.get("read_only")))
        _link(target, path, name)

    def _spec(self, name: str) -> Mapping[str, Any]:
        if name not in self._specs:
            raise ChoreFailed("what opens its store was lost on this machine")
        return self._specs[name]

    def _copy(
        self, name: str, folder: Mapping[str, Any], progress: Progress, keep_on: Callable[[int], bool]
    ) -> str:
        from gofer.agent import copying

        spec = self._spec(name)
        where = copying.place_of(self._around.engine, folder["store"], folder["path"])
        facts = {"store": str(folder["store"]), "path": str(folder["path"])}
        progress.tell("copying")
        chore.do(
            lambda say: copying.copy(spec, where, facts, say),
            hear=progress.hear,
            keep_on=keep_on,
        )
        self._held.append(copying.hold(where))
        progress.tell("copied")
        return copying.tree_of(where)

    def _mount(
        self, name: str, progress: Progress, keep_on: Callable[[int], bool], *, read_only: bool
    ) -> str:
        from gofer.agent import mounting, unmounting

        spec = self._spec(name)
        if spec["kind"] == "file":
            return _folder_on_disk(spec)
        chore.do(  # a store that cannot be read is better met here than in the middle of the command
            lambda say: _touch(spec),
            hear=progress.hear,
            keep_on=keep_on,
        )
        own = f"{os.path.basename(self._code)}.{name}"
        mount = mounting.mount(
            spec,
            unmounting.state_of(self._around.engine, self._request_id, own),
            {**self._around.environment, "GOFER_RUN_ID": self._place.run_id},
            lambda: keep_on(-1),
            read_only=read_only,
        )
        self._mounts[name] = mount
        self._around.spared.add(mount.pid)
        progress.tell("mounted")
        return mount.at

    # -- after the command

    def finish(self, event: Event, *, started: bool) -> Optional[str]:
        """Send what is to be sent and let everything go. In words what could not be sent, None when all was.

        Nothing is uploaded of a command that was never started. Whoever wants the end at once is obeyed.
        """
        problems = []
        for name, folder in self._folders.items():
            progress = Progress(event, name, folder["mode"])
            words = None
            if name in self._mounts:
                words = self._unmount(name, progress)
            elif folder["mode"] == modes.UPLOAD and started:
                words = self._upload(name, progress)
            if words:
                problems.append(f"what it left in `{name}` did not reach {_address(folder)}: {words}")
        self.release()
        return "; ".join(problems) or None

    def release(self) -> None:
        """Let go of copies and mounts. Nothing is sent. Idempotent."""
        if self._mounts:
            os.chdir("/")
        for mount in self._mounts.values():
            mount.end()
            self._around.spared.discard(mount.pid)
        self._mounts.clear()
        while self._held:
            os.close(self._held.pop())

    def discard(self) -> None:
        """Remove a working copy that no other row of the array uses; after the end was written."""
        shutil.rmtree(self._code, ignore_errors=True)

    def _upload(self, name: str, progress: Progress) -> Optional[str]:
        from gofer.agent import uploading

        path = os.path.join(self._code, name)
        left = uploading.look(path)
        if left.others:
            progress.tell("left out", names=left.others[:5], count=len(left.others))
        if not left.files:
            return None
        progress.tell("uploading")
        try:
            spec = self._spec(name)
            chore.do(
                lambda say: uploading.upload(spec, path, left.files, say),
                hear=progress.hear,
                keep_on=self._may_send,
            )
        except (ChoreFailed, OSError, chore.ChoreStopped) as error:
            kept = self._kept(name)
            os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
            os.rename(path, kept)
            words = "it was to end at once" if isinstance(error, chore.ChoreStopped) else str(error)
            return f"{words}; it is kept in {kept}"
        progress.tell("uploaded")
        return None

    def _may_send(self, fd: int) -> bool:
        self._around.watch.wait(fd, _LOOK_S)
        return not self._around.watch.is_firm

    def _unmount(self, name: str, progress: Progress) -> Optional[str]:
        mount = self._mounts.pop(name)
        os.chdir("/")  # nobody may stand in it

        def keep_on() -> bool:
            self._around.watch.wait(-1, _LOOK_S)
            return not self._around.watch.is_firm

        words = mount.flush(keep_on)
        kept = None if words is None else self._kept(name)
        mount.end(keep_cache=kept)
        self._around.spared.discard(mount.pid)
        progress.tell("unmounted")
        return words and f"{words}; what was written is kept in {kept}"

    def _kept(self, name: str) -> str:
        """Where nobody removes it."""
        share = f"{self._place.run_id}.{self._place.attempt}.{self._place.node}"
        return os.path.join(self._around.engine, "unsent", f"{share}.{name}")


def _address(folder: Mapping[str, Any]) -> str:
    return f"{folder['store']}/{folder['path']}"


def _named(name: str, folder: Mapping[str, Any]) -> str:
    return f"the folder `{name}` could not be brought from {folder.get('here') or _address(folder)}"


def _advice(folder: Mapping[str, Any]) -> str:
    return "" if folder["mode"] == modes.LINK else f"; `gofer ls {_address(folder)}` asks the store from here"


def _touch(spec: Mapping[str, Any]) -> None:
    from gofer.agent.remote_folder import RemoteFolder

    next(iter(RemoteFolder(spec).list()), None)


def _folder_on_disk(spec: Mapping[str, Any]) -> str:
    if not os.path.isdir(spec["root"]):
        raise ChoreFailed(f"the store's folder {spec['root']} is not there")
    path = os.path.join(str(spec["root"]), spec.get("prefix", ""))
    os.makedirs(path, exist_ok=True)
    return path


def _link(target: str, path: str, name: str) -> None:
    """The rows of an array share a working copy, and the link is there when the second comes."""
    _check_free(path, name)
    try:
        os.symlink(target, path)
    except FileExistsError:
        if os.readlink(path) != target:
            raise ChoreFailed(f"the code has a link `{name}` of its own") from None


def _check_free(path: str, name: str) -> None:
    """A folder that is empty may have been made by a try that was killed."""
    if os.path.islink(path) or not os.path.lexists(path):
        return
    if not os.path.isdir(path) or os.listdir(path):
        raise ChoreFailed(f"the code that was sent has a `{name}` of its own")
    os.rmdir(path)
