"""Provide the packages of one run on one node: find or build them, and make them visible to the run.

Slow work is done in a child process of the agent: see gofer.node.cancellable_task.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from gofer.core import files, private_folder, prune
from gofer.core.launch import NodePlace
from gofer.core.parallel import SendMessage
from gofer.core.store_spec import StoreSpec
from gofer.node import cancellable_task
from gofer.node.cancellable_task import WorkFailed
from gofer.node.code.project_environments import UV_ENVIRONMENT, show_venv
from gofer.node.code.working_copy import read_code
from gofer.node.events import Event
from gofer.node.packages import archive, pyproject, tools
from gofer.node.packages.cache import ENVIRONMENT, CachedEnvironment, complete
from gofer.node.packages.interpreter import find_interpreter
from gofer.node.packages.package_files import CONDA, PYPROJECT, UV, PackageFile, find
from gofer.node.packages.pyproject import write_metadata
from gofer.node.packages.recipe import Recipe, RecipeInput, make_recipe
from gofer.node.task import Task
from gofer.objects.facts import ObjectsError

# Set for set-up and command: the file whose packages are provided. With it, the set-up of a project that was
# imported from ACT installs nothing.
FILE_VARIABLE = "GOFER_PACKAGES_FILE"
_TRIES = 3


class PackagesFailed(Exception):
    """The packages could not be provided. The text is for the person."""


class PackageRequest(NamedTuple):
    """What a run needs. `store` has the settings of an object store that keeps built environments; None when
    the disk of the node outlives the run. With `sends`, this node sends new environments to the store.
    """

    packages: str
    wheels: Optional[str]
    code: str
    workdir: str
    environment: Mapping[str, str]
    cache: str
    log: str
    store: Optional[StoreSpec]
    sends: bool


class Provided(NamedTuple):
    """The file whose packages were built, the variables that the run gets, and an open file descriptor: while
    it is open, `prune` does not remove the environment. The caller closes it when the run has ended.
    """

    file: str
    added: Dict[str, str]
    held: int

    def added_to(self, task: Task) -> Task:
        """The task with these variables added."""
        environment = {**task.private.environment, **self.added}
        return task._replace(private=task.private._replace(environment=environment))


def wanted_by(
    task: Task, place: NodePlace, cache: str, store: Optional[StoreSpec], log: str
) -> PackageRequest:
    """What the task of a node needs. Of several nodes, only the first sends to the store. Pure."""
    return PackageRequest(
        packages=task.request.packages,
        wheels=task.request.wheels,
        code=task.code,
        workdir=task.workdir,
        environment=task.environment(place, place.first_rank, {}),
        cache=cache,
        log=log,
        store=store,
        sends=place.node == 0,
    )


def provide(wanted: PackageRequest, event: Event, keep_on: Callable[[int], bool]) -> Optional[Provided]:
    """Provide the packages of a run; None when its code has no file that lists packages. Blocks during the
    build.

    PackagesFailed when the packages cannot be provided. WorkStopped when `keep_on` returns False, which is
    called as `cancellable_task.run` says.
    """
    file = find(wanted.packages, os.path.relpath(wanted.workdir, wanted.code), read_code(wanted.code))
    if file is None:
        return None
    for _ in range(_TRIES):
        ready: Dict[str, Any] = {}

        def on_message(message: Dict[str, Any], ready: Dict[str, Any] = ready) -> None:
            if "ready" in message:
                ready.update(message["ready"])
            else:
                event("packages", file=file.path, **message)

        try:
            cancellable_task.run(
                lambda send_message: _Build(wanted, file, send_message).run(),
                on_message=on_message,
                keep_on=keep_on,
            )
            entry = CachedEnvironment(wanted.cache, ready["hash"])
            held = entry.hold(ready["number"])
        except WorkFailed as error:
            raise PackagesFailed(f"the packages of {file.path} could not be installed: {error}") from error
        except FileNotFoundError:
            continue  # `prune` removed the environment between its build and its use
        return Provided(file.path, _shown(wanted, file, entry.place(ready["number"]), ready), held)
    raise PackagesFailed(f"other processes keep removing the packages of {file.path}")


class _Build:
    """The work of the child process. Sends a message for each step, and `ready` at the end."""

    def __init__(self, wanted: PackageRequest, file: PackageFile, send_message: SendMessage) -> None:
        self._wanted = wanted
        self._file = file
        self._send_message = send_message

    def run(self) -> None:
        """Find or build the environment. WorkFailed, also when the disk is full. A failed build leaves
        nothing behind.
        """
        wanted = self._wanted
        given = RecipeInput(wanted.code, self._file, wanted.environment, wanted.wheels, wanted.cache)
        recipe = make_recipe(given, find_interpreter(wanted.environment))
        entry = CachedEnvironment(wanted.cache, recipe.hash)
        try:
            number = entry.usable()[0] or self._build(entry, recipe)
            entry.touch()
        except OSError as error:
            if tools.is_full(error):
                raise WorkFailed(tools.full_disk(wanted.cache)) from error
            raise
        ready = {"hash": recipe.hash, "number": number, "projects": recipe.projects}
        self._send_message({"ready": ready})

    def _build(self, entry: CachedEnvironment, recipe: Recipe) -> int:
        lock = entry.lock(wait=False)
        if lock is None:
            self._report("waiting", "another run builds these packages; waiting for it")
            lock = entry.lock(wait=True)
        assert lock is not None  # `wait` never returns None
        try:
            number, why = entry.usable()
            if number is not None:
                return number
            if why is not None:
                self._report("rebuilding", f"the packages cannot be used again: {why}; building new ones")
            return self._build_locked(entry, recipe, lock)
        finally:
            os.close(lock)

    def _build_locked(self, entry: CachedEnvironment, recipe: Recipe, lock: int) -> int:
        place = entry.begin()
        number = int(os.path.basename(place))
        began = time.monotonic()
        try:
            if not self._fetch(recipe, place, number):
                self._report("building", f"packages: {self._file}, Python {recipe.interpreter.number}")
                wanted = self._wanted
                shop = tools.Workshop(place, wanted.cache, wanted.log, wanted.environment, lock)
                tools.build(recipe, shop, own_python=wanted.store is not None)
                self._send(recipe, place, number)
            complete(place, {"file": self._file.path, "tool": self._file.tool})
        except BaseException:
            prune.delete(place)
            raise
        self._report("built", f"the packages are ready after {time.monotonic() - began:.1f} s")
        return number

    def _fetch(self, recipe: Recipe, place: str, number: int) -> bool:
        """Fetch the environment from the store; False when the store has none that can be used."""
        if self._wanted.store is None or number != 1:
            return False
        try:
            found = archive.fetch(self._wanted.store, recipe.hash, place)
        except (ObjectsError, WorkFailed) as error:
            self._report("building", f"the packages could not be fetched from the store: {error}")
            for name in os.listdir(place):
                prune.delete(os.path.join(place, name))
            return False
        if found:
            self._report("fetched", f"packages: {self._file}, built by an earlier run, from the store")
        return found

    def _send(self, recipe: Recipe, place: str, number: int) -> None:
        """Send the environment to the store for later runs. A failure is only logged, since this run has its
        packages.
        """
        if self._wanted.store is None or not self._wanted.sends or number != 1:
            return
        try:
            size = archive.send(self._wanted.store, recipe.hash, place)
            self._report("sent", f"the packages are in the store for later runs, {size / 2**20:.1f} MiB")
        except (ObjectsError, OSError) as error:
            self._report("building", f"the packages could not be sent to the store for later runs: {error}")

    def _report(self, step: str, words: str) -> None:
        self._send_message({"step": step})
        files.append(self._wanted.log, f"gofer: {words}\n".encode("utf-8", "surrogateescape"))


def _shown(wanted: PackageRequest, file: PackageFile, place: str, ready: Mapping[str, Any]) -> Dict[str, str]:
    """Make the link to the environment in the working copy; the variables that the run gets."""
    env = show_venv(os.path.join(wanted.code, file.folder), os.path.join(place, ENVIRONMENT))
    before, found = wanted.environment, {}
    projects = [str(one) for one in ready["projects"]]
    own = _write_scripts(wanted.code, projects)
    search = [*([own] if own else []), os.path.join(env, "bin"), before.get("PATH", os.defpath)]
    found["PATH"] = os.pathsep.join(search)
    found["CONDA_PREFIX" if file.tool == CONDA else "VIRTUAL_ENV"] = env
    found[FILE_VARIABLE] = file.path
    if file.tool == UV:
        # Without these, `uv run` would change the environment, which other runs share.
        found.update({"UV_NO_SYNC": "1", UV_ENVIRONMENT: env})
    imported = [_import_folder(one) for one in projects]
    imported += _write_metadata(wanted, projects)
    if imported:
        after = [before["PYTHONPATH"]] if before.get("PYTHONPATH") else []
        found["PYTHONPATH"] = os.pathsep.join([*imported, *after])
    return found


def _import_folder(project: str) -> str:
    """The folder that an editable install would add to Python's search path."""
    inner = os.path.join(project, "src")
    return (
        inner if os.path.isdir(inner) and not os.path.exists(os.path.join(inner, "__init__.py")) else project
    )


def _write_metadata(wanted: PackageRequest, projects: List[str]) -> List[str]:
    """Write metadata of the projects; the folder with it, or an empty list."""
    texts = [read_code(one)(PYPROJECT) for one in projects]
    folder = f"{wanted.code}.metadata"
    written = [
        write_metadata(folder, pyproject.parse(text), wanted.environment)
        for text in texts
        if text is not None
    ]
    return [folder] if any(written) else []


def _write_scripts(code: str, projects: List[str]) -> Optional[str]:
    """Write the commands of the projects into a folder beside the working copy; None when they have none."""
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
            # `env` finds the Python of the environment, which comes first in the PATH.
            files.write_whole(
                os.path.join(folder, name), f"#!/usr/bin/env python\n{body}".encode(), mode=0o755
            )
    return folder if os.path.isdir(folder) else None
