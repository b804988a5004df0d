"""Inputs that a job may read and not change, as a read-only mount on the service is.

Their modes forbid it. Root does not heed modes, so its jobs find them mounted read-only, in a mount namespace
that ends with the process. Where this machine allows no mounts, what changed is seen when the job ends.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_MOUNT = 'mount -o bind,ro -- "$path" "$path"'
_RUN = f'command=$1; shift; for path do {_MOUNT} || exit 125; done; exec bash -c "$command"'
_NAMED = 5


@dataclass(frozen=True)
class ReadOnlyInput:
    """An input's folder, and its files and folders as they were when it was sealed."""

    name: str
    path: Path
    seen: dict[str, tuple[int, int]]

    def changed(self) -> str:
        """Names of what is new, gone or another, a few of them; empty when all is as it was."""
        different = {name for name, _ in _listing(self.path).items() ^ self.seen.items()}
        return ", ".join(sorted(different)[:_NAMED])

    def open(self) -> None:
        """So that it can be removed, if it is still there."""
        with contextlib.suppress(OSError):
            _set_modes(self.path, 0o755, 0o644)


def make_read_only(name: str, path: Path) -> ReadOnlyInput:
    """Takes the right to write from everything below."""
    _set_modes(path, 0o555, 0o444)
    return ReadOnlyInput(name, path, _listing(path))


def command_line(command: str, folders: list[Path]) -> list[str]:
    """What runs the command with these folders mounted read-only, where that is needed and can be done."""
    if not folders or not may_mount():
        return ["bash", "-c", command]
    return ["unshare", "--mount", "bash", "-c", _RUN, "bash", command, *map(str, folders)]


@functools.cache
def may_mount() -> bool:
    """Whether this is root, with the right to mount."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as path:
        argv = ["unshare", "--mount", "bash", "-c", f"path=$1; {_MOUNT}", "bash", path]
        try:
            return subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0
        except OSError:
            return False


def _listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file below, by name; folders have neither."""
    found = {}
    for root, folders, names in os.walk(folder):
        for name in folders:
            found[Path(root, name).relative_to(folder).as_posix() + "/"] = (0, 0)
        for name in names:
            facts = os.lstat(Path(root, name))
            found[Path(root, name).relative_to(folder).as_posix()] = (facts.st_size, facts.st_mtime_ns)
    return found


def _set_modes(folder: Path, of_folders: int, of_files: int) -> None:
    """A folder before what is in it, as one must be open to be walked; links are left alone."""
    os.chmod(folder, of_folders)
    for root, folders, names in os.walk(folder):
        for mode, found in ((of_folders, folders), (of_files, names)):
            for name in found:
                if not os.path.islink(os.path.join(root, name)):
                    os.chmod(os.path.join(root, name), mode)
