"""Restore the files of a snapshot into a folder, byte for byte, or leave nothing.

Anyone may have written the manifest, so it is treated as hostile. `manifest` checks the names, and every
piece of content is checked against its hash before it is written. Files are always newly created, and links
are made last, so that no write can go through a link.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from gofer.core.code import file_times
from gofer.core.code.file_times import FileTimes
from gofer.core.code.manifest import Manifest, ManifestEntry, load
from gofer.core.code.packs import CHUNK_BYTES, Read, read_blobs, read_object
from gofer.core.code.snapshot_names import ManifestError

_STALE_S = 24 * 3600.0
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CONTINUE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC

_Folder = Union[str, "os.PathLike[str]"]
# Where the bytes of a blob are written: entries, and the number of the piece in each entry.
_Uses = Dict[str, List[Tuple[ManifestEntry, int]]]


class CheckoutError(Exception):
    """The snapshot cannot be restored. The text says what failed, and on which file or folder."""


class Restored(NamedTuple):
    """What is in the folder now. `reused`: the snapshot was there already."""

    files: int
    size: int
    reused: bool


def restore(
    source: Union[_Folder, Read], snapshot_id: str, destination: _Folder, *, times_key: Optional[str] = None
) -> Restored:
    """Restore a snapshot into `destination`, which must be absent, empty, or a restore of the same snapshot.

    `source` is the folder of a store or a callable that reads from a store. `times_key` names the object with
    the times and permission bits of the files; without it, files get the current time. Blocks. The folder
    appears complete or not at all, whatever is killed. The file `<destination>.snapshot` beside it names the
    snapshot, and a second call, even at the same time, finds the file and does nothing. CheckoutError when
    the snapshot cannot be restored.
    """
    target = os.path.abspath(os.fspath(destination))
    if _is_restored(target, snapshot_id):
        return Restored(0, 0, True)
    read = source if callable(source) else folder_reader(source)
    try:
        manifest = load(read, snapshot_id)
        times = None if times_key is None else file_times.decode(read_object(read, times_key), manifest)
        return _restore_new(read, manifest, times, target)
    except ManifestError as error:
        raise CheckoutError(f"the snapshot {snapshot_id} cannot be restored: {error}") from error
    except OSError as error:
        raise CheckoutError(f"the snapshot {snapshot_id} could not be put into {target}: {error}") from error


def folder_reader(folder: _Folder) -> Read:
    """A reader for a store that is a folder. The reader raises ManifestError for an object that is absent."""
    root = os.fspath(folder)

    def read(key: str, start: int, length: int) -> bytes:
        try:
            with open(os.path.join(root, key), "rb", buffering=0) as file:
                file.seek(start)
                # A read allocates the length it is given, so never ask for more than the file has.
                return _read_fully(file.read, min(length, max(os.fstat(file.fileno()).st_size - start, 0)))
        except FileNotFoundError as error:
            raise ManifestError(f"the store {root} has no {key}") from error

    return read


def _read_fully(read: Callable[[int], Optional[bytes]], length: int) -> bytes:
    data = read(length) or b""
    while len(data) < length:
        more = read(length - len(data))
        if not more:
            break
        data += more
    return data


def _is_restored(target: str, snapshot_id: str) -> bool:
    """Whether the folder already holds this snapshot; CheckoutError when it holds something else."""
    try:
        if not os.listdir(target):
            # An empty folder may be a restored empty snapshot, and restoring that again costs nothing.
            return False
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CheckoutError(f"cannot put a snapshot into {target}: {error}") from error
    if _read_mark(target) == snapshot_id:
        return True
    raise CheckoutError(f"cannot put the snapshot {snapshot_id} into {target}: it holds something else")


def _mark_path(target: str) -> str:
    return target + ".snapshot"


def _read_mark(target: str) -> Optional[str]:
    try:
        with open(_mark_path(target), encoding="ascii") as file:
            return file.read(100).strip()
    except (OSError, ValueError):
        return None


def _restore_new(read: Read, manifest: Manifest, times: Optional[FileTimes], target: str) -> Restored:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    _sweep(target)
    part = f"{target}.part-{os.getpid()}-{os.urandom(4).hex()}"
    os.mkdir(part)
    try:
        _fill(read, manifest, os.fsencode(part))
        if times is not None:
            file_times.apply(os.fsencode(part), manifest, times)
        # The mark is written before the rename: a mark without a folder is harmless, but a folder without a
        # mark would look like somebody else's.
        _write_mark(target, part + ".mark", manifest.id)
        try:
            os.rename(part, target)
        except OSError:
            if not _is_restored(target, manifest.id):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Restored(len(manifest.entries), sum(entry.size for entry in manifest.entries), False)


def _write_mark(target: str, temporary: str, snapshot_id: str) -> None:
    with open(temporary, "w", encoding="ascii") as file:
        file.write(snapshot_id + "\n")
    os.replace(temporary, _mark_path(target))


def _sweep(target: str) -> None:
    """Remove what restores that were killed long ago have left."""
    folder, name = os.path.split(target)
    for other in os.listdir(folder):
        if other.startswith(name + ".part-"):
            path = os.path.join(folder, other)
            try:
                if os.lstat(path).st_mtime < time.time() - _STALE_S:
                    shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
            except OSError:
                continue  # another restore removes it, or it belongs to another user


def _fill(read: Read, manifest: Manifest, root: bytes) -> None:
    uses = _uses(manifest)
    for folder in manifest.folders:
        os.mkdir(os.path.join(root, folder))
    for entry in manifest.entries:
        if entry.kind != "l" and len(entry.blobs) != 1:
            _reserve(os.path.join(root, entry.path), entry)
    for blob, data in read_blobs(read, manifest.places, uses):
        for entry, number in uses[blob]:
            _write_piece(os.path.join(root, entry.path), data, entry, number)
    for entry in manifest.entries:
        if entry.kind == "l":
            os.symlink(entry.target, os.path.join(root, entry.path))


def _uses(manifest: Manifest) -> _Uses:
    """Where every blob is written; ManifestError when a blob does not have the length that a file needs."""
    uses: _Uses = {}
    for entry in manifest.entries:
        for number, blob in enumerate(entry.blobs):
            place = manifest.places.get(blob)
            length = min(CHUNK_BYTES, entry.size - number * CHUNK_BYTES)
            if place and place.length != length:
                raise ManifestError(
                    f"the pack {place.pack} has {place.length} bytes for {blob}, not {length}"
                )
            uses.setdefault(blob, []).append((entry, number))
    return uses


def _mode(entry: ManifestEntry) -> int:
    return 0o777 if entry.kind == "x" else 0o666


def _reserve(path: bytes, entry: ManifestEntry) -> None:
    """Create a file of several pieces, or of none, beforehand. Pieces arrive in the order of the packs, not
    of the file.
    """
    file = os.open(path, _CREATE, _mode(entry))
    try:
        os.ftruncate(file, entry.size)
    finally:
        os.close(file)


def _write_piece(path: bytes, data: memoryview, entry: ManifestEntry, number: int) -> None:
    file = os.open(path, _CONTINUE if len(entry.blobs) > 1 else _CREATE, _mode(entry))
    try:
        offset = number * CHUNK_BYTES
        done = 0
        while done < len(data):
            done += os.pwrite(file, data[done:], offset + done)
    finally:
        os.close(file)
