"""The packages of one run on one node: found or built, and shown to the run.

All that takes long runs in a child process of the agent, see gofer.node.cancellable_task.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from gofer.core import files, private_folder, prune
from gofer.core.launch import NodePlace
from gofer.core.parallel import Say
from gofer.node import cancellable_task
from gofer.node.cancellable_task import ChoreFailed
from gofer.node.folders.progress import Event
from gofer.node.packages import archive, pyproject, tools
from gofer.node.packages.cache import ENVIRONMENT, CachedEnvironment, complete
from gofer.node.packages.interpreter import find_interpreter
from gofer.node.packages.package_files import CONDA, PYPROJECT, UV, PackageFile, Read, find
from gofer.node.packages.project_metadata import write_metadata
from gofer.node.packages.recipe import Recipe, RecipeInput, make_recipe
from gofer.node.project_environments import UV_ENVIRONMENT, show_venv
from gofer.node.task import Task
from gofer.objects.facts import ObjectsError

# Set for set-up and command: the file whose packages are there. Set-up of ACT's then installs nothing.
FILE_VARIABLE = "GOFER_PACKAGES_FILE"
_TRIES = 3


class PackagesFailed(Exception):
    """The packages cannot be had, in words for the person."""


class PackageRequest(NamedTuple):
    """What a run asks for. `store` opens an object store in which built environments are kept, None where the
    disk of the node lasts; with `sends` this node brings new ones there.
    """

    packages: str
    wheels: Optional[str]
    code: str
    workdir: str
    environment: Mapping[str, str]
    cache: str
    log: str
    store: Optional[Mapping[str, Any]]
    sends: bool


class Provided(NamedTuple):
    """The file that was built, the variables that the run gets for it, and the descriptor that keeps the
    environment from being removed: the caller closes it when the run has ended.
    """

    file: str
    added: Dict[str, str]
    held: int

    def added_to(self, task: Task) -> Task:
        """The task with these variables."""
        environment = {**task.private.environment, **self.added}
        return task._replace(private=task.private._replace(environment=environment))


def wanted_by(
    task: Task, place: NodePlace, cache: str, store: Optional[Mapping[str, Any]], log: str
) -> PackageRequest:
    """What the task of a node asks for; of several nodes the first sends to the store. Pure."""
    return PackageRequest(
        packages=task.request["packages"],
        wheels=task.request.get("wheels"),
        code=task.code,
        workdir=task.workdir,
        environment=task.environment(place, place.first_rank, {}),
        cache=cache,
        log=log,
        store=store,
        sends=place.node == 0,
    )


def provide(wanted: PackageRequest, event: Event, keep_on: Callable[[int], bool]) -> Optional[Provided]:
    """The packages of a run; None where its code lists none. Blocks while they are built.

    PackagesFailed, or ChoreStopped when `keep_on` (as in `chore.do`) says so.
    """
    file = find(wanted.packages, os.path.relpath(wanted.workdir, wanted.code), read_code(wanted.code))
    if file is None:
        return None
    for _ in range(_TRIES):
        ready: Dict[str, Any] = {}

        def hear(message: Dict[str, Any], ready: Dict[str, Any] = ready) -> None:
            if "ready" in message:
                ready.update(message["ready"])
            else:
                event("packages", file=file.path, **message)

        try:
            cancellable_task.do(lambda say: _Build(wanted, file, say).run(), hear=hear, keep_on=keep_on)
            entry = CachedEnvironment(wanted.cache, ready["hash"])
            held = entry.hold(ready["number"])
        except ChoreFailed as error:
            raise PackagesFailed(f"the packages of {file.path} could not be had: {error}") from error
        except FileNotFoundError:
            continue  # `prune` removed it between the build and its use
        return Provided(file.path, _shown(wanted, file, entry.place(ready["number"]), ready), held)
    raise PackagesFailed(f"the packages of {file.path} are removed again and again")


def read_code(code: str) -> Read:
    """Reads files of a run's copy."""

    def read(path: str) -> Optional[str]:
        try:
            with open(os.path.join(code, path), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    return read


class _Build:
    """The work of the child process. Says at each step what it does, and `ready` last."""

    def __init__(self, wanted: PackageRequest, file: PackageFile, say: Say) -> None:
        self._wanted = wanted
        self._file = file
        self._say = say

    def run(self) -> None:
        """ChoreFailed, also for a full disk; a failed build leaves nothing behind."""
        wanted = self._wanted
        given = RecipeInput(wanted.code, self._file, wanted.environment, wanted.wheels, wanted.cache)
        recipe = make_recipe(given, find_interpreter(wanted.environment))
        entry = CachedEnvironment(wanted.cache, recipe.hash)
        try:
            number = entry.usable()[0] or self._build(entry, recipe)
            entry.touch()
        except OSError as error:
            if tools.is_full(error):
                raise ChoreFailed(tools.full_disk(wanted.cache)) from error
            raise
        ready = {"hash": recipe.hash, "number": number, "projects": recipe.projects}
        self._say({"ready": ready})

    def _build(self, entry: CachedEnvironment, recipe: Recipe) -> int:
        lock = entry.lock(wait=False)
        if lock is None:
            self._tell("waiting", "another run builds these packages; waiting for it")
            lock = entry.lock(wait=True)
        assert lock is not None  # it was waited for
        try:
            number, why = entry.usable()
            if number is not None:
                return number
            if why is not None:
                self._tell("rebuilding", f"the packages cannot be used again: {why}; building new ones")
            return self._build_locked(entry, recipe, lock)
        finally:
            os.close(lock)

    def _build_locked(self, entry: CachedEnvironment, recipe: Recipe, lock: int) -> int:
        place = entry.begin()
        number = int(os.path.basename(place))
        began = time.monotonic()
        try:
            if not self._fetch(recipe, place, number):
                self._tell("building", f"packages: {self._file}, Python {recipe.interpreter.number}")
                wanted = self._wanted
                shop = tools.Workshop(place, wanted.cache, wanted.log, wanted.environment, lock)
                tools.build(recipe, shop, own_python=wanted.store is not None)
                self._send(recipe, place, number)
            complete(place, {"file": self._file.path, "tool": self._file.tool})
        except BaseException:
            prune.delete(place)
            raise
        self._tell("built", f"the packages are ready after {time.monotonic() - began:.1f} s")
        return number

    def _fetch(self, recipe: Recipe, place: str, number: int) -> bool:
        """Whether the store had the environment. One that cannot be used is built instead."""
        if self._wanted.store is None or number != 1:
            return False
        try:
            found = archive.fetch(self._wanted.store, recipe.hash, place)
        except (ObjectsError, ChoreFailed) as error:
            self._tell("building", f"the packages could not be fetched from the store: {error}")
            for name in os.listdir(place):
                prune.delete(os.path.join(place, name))
            return False
        if found:
            self._tell("fetched", f"packages: {self._file}, as an earlier run built them, from the store")
        return found

    def _send(self, recipe: Recipe, place: str, number: int) -> None:
        """For later runs; this one has its packages whether or not the store takes them."""
        if self._wanted.store is None or not self._wanted.sends or number != 1:
            return
        try:
            size = archive.send(self._wanted.store, recipe.hash, place)
            self._tell("sent", f"the packages are in the store for later runs, {size / 2**20:.1f} MiB")
        except (ObjectsError, OSError) as error:
            self._tell("building", f"the packages could not be sent to the store for later runs: {error}")

    def _tell(self, step: str, words: str) -> None:
        self._say({"step": step})
        files.append(self._wanted.log, f"gofer: {words}\n".encode("utf-8", "surrogateescape"))


def _shown(wanted: PackageRequest, file: PackageFile, place: str, ready: Mapping[str, Any]) -> Dict[str, str]:
    """Show the packages to the run: the link in its copy, and the variables that it gets."""
    env = show_venv(os.path.join(wanted.code, file.folder), os.path.join(place, ENVIRONMENT))
    before, found = wanted.environment, {}
    projects = [str(one) for one in ready["projects"]]
    own = _write_scripts(wanted.code, projects)
    search = [*([own] if own else []), os.path.join(env, "bin"), before.get("PATH", os.defpath)]
    found["PATH"] = os.pathsep.join(search)
    found["CONDA_PREFIX" if file.tool == CONDA else "VIRTUAL_ENV"] = env
    found[FILE_VARIABLE] = file.path
    if file.tool == UV:
        # `uv run` would change the environment, which others share.
        found.update({"UV_NO_SYNC": "1", UV_ENVIRONMENT: env})
    imported = [_import_folder(one) for one in projects]
    imported += _write_metadata(wanted, projects)
    if imported:
        after = [before["PYTHONPATH"]] if before.get("PYTHONPATH") else []
        found["PYTHONPATH"] = os.pathsep.join([*imported, *after])
    return found


def _import_folder(project: str) -> str:
    """Where an editable install would have Python look."""
    inner = os.path.join(project, "src")
    return (
        inner if os.path.isdir(inner) and not os.path.exists(os.path.join(inner, "__init__.py")) else project
    )


def _write_metadata(wanted: PackageRequest, projects: List[str]) -> List[str]:
    """What importlib.metadata is to find of the projects: the folder with it, or nothing."""
    texts = [read_code(one)(PYPROJECT) for one in projects]
    folder = f"{wanted.code}.metadata"
    written = [
        write_metadata(folder, pyproject.parse(text), wanted.environment)
        for text in texts
        if text is not None
    ]
    return [folder] if any(written) else []


def _write_scripts(code: str, projects: List[str]) -> Optional[str]:
    """The commands of the projects in a folder beside the run's copy; None when they have none."""
    folder = f"{code}.bin"
    for project in projects:
        text = read_code(project)(PYPROJECT)
        for name, target in (pyproject.parse(text).scripts if text else {}).items():
            if os.path.basename(name) != name:
                continue
            module, _, function = target.partition(":")
            function = function.partition("[")[0].strip()
            first = function.partition(".")[0]
            body = f"import sys\nfrom {module.strip()} import {first}\nsys.exit({function}())\n"
            private_folder.make_missing(folder)
            # `env` finds the Python of the environment, which is first in the PATH.
            files.write_whole(
                os.path.join(folder, name), f"#!/usr/bin/env python\n{body}".encode(), mode=0o755
            )
    return folder if os.path.isdir(folder) else None
