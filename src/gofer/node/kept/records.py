"""Records of the files that were kept: a list with the facts of each file, and the totals. Pure.

`files.jsonl` of a node describes the files that the node left below `files/` and `outputs/` of its run, and
in a working copy that stayed. It has the facts that an object store does not keep, as one JSON array per
line. `exit.json` has the totals under `kept`.
"""

from __future__ import annotations

import os
import stat
from typing import Collection, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from gofer.core import files
from gofer.core.json_text import parse_json

# Where a listed file is: in the run's folder, or in the working copy that stayed on the node.
FILES = "files"
OUTPUTS = "outputs"
COPY = "copy"

# Why a file was not kept, where no error of the system is the reason.
SECRET = "looks like a secret"
SPECIAL = "is neither a file nor a link"
TOO_MUCH = "more than may be kept"

FILE = "f"
EXECUTABLE = "x"
LINK = "l"
FOLDER = "d"
_KINDS = (FILE, EXECUTABLE, LINK, FOLDER)

# The exit record names at most this many files that were left out.
MOST_LEFT = 20


class KeptFile(NamedTuple):
    """One file, link or empty folder: `path` below `place` (FILES, OUTPUTS or COPY).

    `target` is the target of a link. `allocated` are the bytes on disk of a sparse file, None for other
    files.
    """

    place: str
    path: str
    kind: str
    size: int
    mtime_ns: int
    mode: int
    target: Optional[str] = None
    allocated: Optional[int] = None

    def encode(self) -> bytes:
        """The line of `files.jsonl`, with its line end."""
        fields = list(self) if self.allocated is not None else list(self)[:-1]
        return files.encode(fields) + b"\n"


def describe(place: str, path: str, status: os.stat_result, target: Optional[str] = None) -> KeptFile:
    """The entry for a file, from `os.lstat`; with `target` for a link."""
    mode = stat.S_IMODE(status.st_mode)
    allocated = status.st_blocks * 512
    is_sparse = stat.S_ISREG(status.st_mode) and allocated < status.st_size
    return KeptFile(
        place,
        path,
        kind_of(status.st_mode),
        status.st_size,
        status.st_mtime_ns,
        mode,
        target,
        allocated if is_sparse else None,
    )


def kind_of(mode: int) -> str:
    """FILE, EXECUTABLE, LINK or FOLDER, from a mode of `os.lstat`."""
    if stat.S_ISLNK(mode):
        return LINK
    if stat.S_ISDIR(mode):
        return FOLDER
    return EXECUTABLE if mode & 0o100 else FILE


def encode_list(kept: Iterable[KeptFile]) -> bytes:
    """The whole of `files.jsonl`."""
    return b"".join(one.encode() for one in kept)


def decode_list(data: bytes) -> Iterator[KeptFile]:
    """The entries of a `files.jsonl`, which anyone may have written. Malformed lines are skipped.

    Paths are relative, have no `..`, no empty part and no NUL, so that they can be joined to a folder.
    """
    for line in data.split(b"\n"):
        try:
            value = parse_json(line) if line else None
        except ValueError:
            continue
        found = _decoded(value)
        if found is not None:
            yield found


def _decoded(value: object) -> Optional[KeptFile]:
    if not isinstance(value, list) or not 7 <= len(value) <= 8:
        return None
    place, path, kind, size, mtime_ns, mode, target = value[:7]
    allocated = value[7] if len(value) == 8 else None
    if place not in (FILES, OUTPUTS, COPY) or kind not in _KINDS or not _is_inside(path):
        return None
    if not all(_is_count(one) for one in (size, mode)) or not _is_number(mtime_ns):
        return None
    if (kind == LINK) != _is_path(target) or (kind != LINK and target is not None):
        return None
    if not (allocated is None or _is_count(allocated)):
        return None
    return KeptFile(place, path, kind, size, mtime_ns, mode & 0o7777, target, allocated)


def _is_path(value: object) -> bool:
    """Whether the value is text that a system call takes as a path."""
    try:
        return isinstance(value, str) and "\0" not in value and os.fsencode(value) is not None
    except UnicodeEncodeError:
        return False


def _is_inside(path: object) -> bool:
    return (
        _is_path(path)
        and isinstance(path, str)
        and all(part not in ("", ".", "..") for part in path.split("/"))
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_count(value: object) -> bool:
    return _is_number(value) and isinstance(value, int) and value >= 0


class KeptFiles(NamedTuple):
    """What a node kept at the end of an attempt. `changed` of the `files` are changed files of the code.

    `left` names files that were not kept, with the reason: at most MOST_LEFT of `left_count`. `copy` is the
    path on the node of a working copy that stayed, because its files exceed the limit.
    """

    files: int = 0
    size: int = 0
    changed: int = 0
    left: Tuple[Tuple[str, str], ...] = ()
    left_count: int = 0
    copy: Optional[str] = None

    def encode(self) -> Dict[str, object]:
        """The value of `kept` in `exit.json`."""
        return {
            "files": self.files,
            "bytes": self.size,
            "changed": self.changed,
            "left": [list(one) for one in self.left[:MOST_LEFT]],
            "left_count": self.left_count,
            "copy": self.copy,
        }


def decode_kept(record: Mapping[str, object]) -> Optional[KeptFiles]:
    """The totals in an exit record; None when an older agent wrote the record, or when they are malformed."""
    found = record.get("kept")
    if not isinstance(found, dict):
        return None
    counts = [found.get(name) for name in ("files", "bytes", "changed", "left_count")]
    left, copy = found.get("left"), found.get("copy")
    if not all(_is_count(one) for one in counts) or not isinstance(left, list):
        return None
    names = tuple((str(one[0]), str(one[1])) for one in left[:MOST_LEFT] if _is_pair(one))
    count, size, changed, left_count = (int(one) for one in counts if one is not None)
    return KeptFiles(count, size, changed, names, left_count, copy if isinstance(copy, str) else None)


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)


def list_folder(place: str, top: str) -> List[KeptFile]:
    """The files, links and empty folders below `top`, which is `place` of the run; none when `top` is
    absent.
    """
    try:
        from gofer.node.code import working_copy  # the laptop reads records, and scans no copy

        return describe_files(top, working_copy.scan(top), place)
    except OSError:
        return []


def describe_files(top: str, paths: Collection[str], place: str) -> List[KeptFile]:
    """The files, links and empty folders of `paths` as they are below the folder `top`."""
    filled = {path.rpartition("/")[0] for path in paths}
    listed: List[KeptFile] = []
    for path in paths:
        full_path = os.path.join(top, path)
        try:
            status = os.lstat(full_path)
            target = os.readlink(full_path) if stat.S_ISLNK(status.st_mode) else None
        except OSError:
            continue
        is_listed = stat.S_ISREG(status.st_mode) or target is not None
        if is_listed or (stat.S_ISDIR(status.st_mode) and path not in filled):
            listed.append(describe(place, path, status, target))
    return listed
