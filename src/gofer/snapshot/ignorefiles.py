"""Finds ignore rules on the disk: in the folder, above it, and in git's own places."""

from __future__ import annotations

import errno
import os
import stat

from gofer.errors import SnapshotError
from gofer.snapshot.patterns import PatternList
from gofer.snapshot.repository import Repository, read_file
from gofer.snapshot.rules import GIT_FILE, Layer

_MOST_BYTES = 100 * 1024 * 1024


def read_rules(path: str, folder: int | None = None, *, shown: str | None = None) -> bytes | None:
    """The text of an ignore file; None when there is none or it is not a regular file.

    The path is relative to the open `folder`; `shown` is the path for errors. As in git, a link is not
    followed, because it could lead anywhere.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise SnapshotError(
            f"cannot read the ignore file `{shown or path}`: {error.strerror}",
            hint="make it readable, or remove it",
        ) from error
    with open(file, "rb", buffering=0) as opened:
        status = os.fstat(file)
        is_plain = stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES
        return opened.read() if is_plain else None


def outside_layers(
    repository: Repository, folder: bytes, global_file: bytes
) -> tuple[tuple[Layer, ...], bool]:
    """The git rules from outside `folder`, the strongest first, and whether they ignore the whole folder.

    If they do, the user has chosen an ignored folder, so only the user's global ignore file applies.
    """
    lead = folder[len(repository.root) :].strip(b"/")
    lead = lead + b"/" if lead else b""
    everywhere = _layer(read_file(global_file), lead, os.fsdecode(global_file))
    excluded = _layer(
        read_file(os.path.join(repository.common_dir, b"info", b"exclude")), lead, ".git/info/exclude"
    )
    layers = [*_above(repository.root, lead), *excluded, *everywhere]
    if lead and _is_ignored(layers, lead):
        return tuple(everywhere), True
    return tuple(layers), False


def _layer(text: bytes | None, lead: bytes, source: str) -> list[Layer]:
    return [Layer(PatternList(text), lead, 0, source)] if text else []


def _above(root: bytes, lead: bytes) -> list[Layer]:
    """The ignore files between the repository's top and the folder, the deepest first."""
    layers: list[Layer] = []
    at = root
    while lead:
        file = os.path.join(os.fsdecode(at), GIT_FILE)
        layers = _layer(read_rules(file), lead, file) + layers
        name, _, lead = lead.partition(b"/")
        at = os.path.join(at, name)
    return layers


def _is_ignored(layers: list[Layer], lead: bytes) -> bool:
    """Whether the rules ignore the folder at `lead`, or a folder above it."""
    parts = lead.rstrip(b"/").split(b"/")
    for depth, name in enumerate(parts):
        below = len(b"/".join(parts[depth:])) + 1
        for layer in layers:
            # A layer applies only to folders below its file; it sees the path up to this name.
            seen = layer.lead[: len(layer.lead) - below + len(name)]
            if len(layer.lead) < below:
                continue
            found = layer.patterns.verdict(name, seen, True)
            if found is not None:
                if found:
                    return True
                break
    return False
