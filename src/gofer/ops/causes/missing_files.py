"""Explain why a file or module was missing in a run although the project has it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gofer.backends import registry
from gofer.errors import SnapshotError
from gofer.ops.causes.cause import Cause
from gofer.ops.submission import code
from gofer.ops.submission.left_out import advise_include, describe_link, include_pattern
from gofer.snapshot.capture import survey
from gofer.snapshot.rules import SECRET

if TYPE_CHECKING:
    from gofer.ops.causes.cause import FailedRun
    from gofer.snapshot.left_out import LeftOutEntry, LeftOutReport

_MISSING = re.compile(
    r"No such file or directory: b?(?P<quote>['\"])(?P<python>.+?)(?P=quote)"
    r"|(?:^|[:\s])['\u2018\"]?(?P<shell>[^:'\u2018\u2019\"]+)['\u2019\"]?: "
    r"(?:No such file or directory|not found)"
)
_MODULE = re.compile(r"No module named '(?P<module>[\w.]+)'")
_NODE_MODULE = re.compile(r"Cannot find (?:module|package) '(?P<module>[^']+)'")
# A command that no folder of PATH has; `npm run` adds those of the packages to PATH.
_COMMAND = re.compile(r"(?:^|[:\s])(?P<command>[\w.@-]+): (?:command )?not found")
_NODE_PACKAGES = "node_modules"
# The error of make without its Makefile, or without a file that `./configure` would have made.
_TARGET = re.compile(
    r"make(?:\[\d+\])?: \*\*\* (?:No rule to make target '(?P<target>[^']+)'|.*no makefile found)"
)
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")


# Errors about a missing file or module contain one of these.
_SIGNS = ("No such file", "not found", "No module", "Cannot find", "No rule to make", "no makefile found")


def find_left_out(run: FailedRun) -> Cause | None:
    """Which rule left out the file that the last lines of a run miss, and the line that includes it; None
    when no rule did.

    Reads the project as it is now; None when the project is not on this machine.
    """
    text = [line.strip() for line in run.lines if any(sign in line for sign in _SIGNS)]
    workdir = run.record.job.workdir
    paths = [*_paths(text, workdir), *_node_paths(text, workdir), *_make_paths(text, workdir)]
    modules = [found["module"].split(".") for line in text for found in _MODULE.finditer(line)]
    if run.project is None or not (paths or modules):
        return None
    left_out = _survey(run, run.project)
    if left_out is None:
        return None
    for path in paths:
        if os.path.lexists(run.project / path) and (found := _explain_path(run, path, left_out)):
            return found
    entries = (entry for module in modules for entry in left_out.entries if _is_module(entry, module))
    return next((_explain_entry(run, entry.path, entry) for entry in entries), None)


def find_only_here(run: FailedRun) -> Cause | None:
    """A file outside of the project that this machine has and the machine of the run has not."""
    if registry.runs_here(run.row.backend):
        return None
    for line in run.lines:
        for found in _MISSING.finditer(line):
            path = (found["python"] or found["shell"] or "").strip()
            if os.path.isabs(path) and run.record.id not in path and os.path.exists(path):
                words = (
                    f"`{path}` is on this machine and not on the node; `folders:` in gofer.yaml maps a folder"
                )
                return Cause(f"{words} into the run", ("gofer config edit --project", run.again))
    return None


def _survey(run: FailedRun, folder: Path) -> LeftOutReport | None:
    job, session = run.record.job, run.session
    source = code.Source(folder, workdir=job.workdir, include=job.include, ignore=job.ignore)
    choice = code.choose_files(session, source, run.record.target, job.folders)
    try:
        return survey(folder, cache_dir=session.paths.cache_dir, choice=choice).left_out
    except SnapshotError:
        return None


def _paths(lines: Iterable[str], workdir: str) -> Iterator[str]:
    """Paths in the project that the lines may name. A path in the working copy on a node may be any end of an
    absolute path.
    """
    for line in lines:
        for found in _MISSING.finditer(line):
            path = (found["python"] or found["shell"] or "").strip()
            if os.path.isabs(path):
                parts = path.strip("/").split("/")
                yield from ("/".join(parts[at:]) for at in range(len(parts)))
            elif path:
                inside = os.path.normpath(os.path.join(workdir, path))
                yield from [inside] if not inside.startswith("..") else []


def _node_paths(lines: Iterable[str], workdir: str) -> Iterator[str]:
    """Paths where missing Node packages and commands may be: in `node_modules` of this folder or a folder
    above.
    """
    missed: list[str] = []
    for line in lines:
        missed += [found["module"] for found in _NODE_MODULE.finditer(line)]
        missed += [f".bin/{found['command']}" for found in _COMMAND.finditer(line)]
    for name in missed:
        if os.path.isabs(name):
            parts = name.strip("/").split("/")
            yield from ("/".join(parts[at:]) for at in range(len(parts)))
            continue
        parts = [one for one in os.path.normpath(workdir).split("/") if one != "."]
        for most in range(len(parts), -1, -1):
            yield "/".join([*parts[:most], _NODE_PACKAGES, name])


def _make_paths(lines: Iterable[str], workdir: str) -> Iterator[str]:
    """The file for which make has no rule, then the Makefile."""
    for line in lines:
        found = _TARGET.search(line)
        if found is not None:
            yield from _paths([f"{found['target']}: not found"] if found["target"] else [], workdir)
            yield from (os.path.normpath(os.path.join(workdir, name)) for name in _MAKEFILES)


def _explain_path(run: FailedRun, path: str, found: LeftOutReport) -> Cause | None:
    entry = next((one for one in found.entries if _is_at(path, one.path)), None)
    if entry is not None:
        return _explain_entry(run, path, entry)
    link = next((one for one in found.links if _is_at(path, one.path)), None)
    if link is None:
        return None
    cure = (
        "a link by a relative path leads to the run's copy"
        if link.is_own
        else "`folders:` in gofer.yaml maps a folder into the run"
    )
    return Cause(f"{describe_link(link)}; {cure}", (run.again,))


def _is_at(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")


def _explain_entry(run: FailedRun, path: str, entry: LeftOutEntry) -> Cause:
    why = (
        "was left out because it looks like a secret"
        if entry.reason.source == SECRET
        else f"was left out by the line `{entry.reason.line}` of {entry.reason.source}"
    )
    job, included = run.job, f"{entry.path}/" if entry.is_folder else entry.path
    again = run.with_job(
        msgspec.structs.replace(job, include=(*job.include, include_pattern(included, job.workdir)))
    )
    return Cause(f"`{path}` is in the project and {why}; {advise_include(included, job.workdir)}", (again,))


def _is_module(entry: LeftOutEntry, module: Sequence[str]) -> bool:
    """Whether the entry is the module or a package that contains it."""
    *above, name = entry.path.split("/")
    parts = [*above, name if entry.is_folder else name.partition(".")[0]]
    if parts[-len(module) :] == list(module):
        return True
    return entry.is_folder and any(parts[-most:] == list(module[:most]) for most in range(1, len(module)))
