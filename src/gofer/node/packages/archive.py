"""Keep built environments in an object store, for nodes whose disk does not outlive a run.

`packages/<hash>.tar.gz` is the folder of one environment. Scripts in it contain the path at which it was
built; the file `origin` holds that path. When the archive is unpacked at another path, the scripts are
rewritten.
"""

from __future__ import annotations

import glob
import os
import tarfile
import time
from typing import Iterator, Set

from gofer.core import files
from gofer.core.store_spec import StoreSpec
from gofer.node.cancellable_task import WorkFailed
from gofer.node.packages.cache import ENVIRONMENT
from gofer.objects import open_objects

PREFIX = "packages"
_SUFFIX = ".tar.gz"
_PIECE = 4 << 20
# `gofer prune` goes by the time of an object. A use renews the time if it is older than this.
_RENEW_S = 12 * 3600.0
_ROOTS = (ENVIRONMENT, "python")
_ORIGIN = "origin"
# Scripts and links with the path of the environment are in these folders.
_NAMING = ("bin", ".", "lib/*/site-packages")
_LONGEST_SCRIPT = 1 << 20


def key_of(name: str) -> str:
    return f"{PREFIX}/{name}{_SUFFIX}"


def used_key_of(name: str) -> str:
    """The key of an empty object whose time is that of the last use, to within half a day."""
    return f"{PREFIX}/{name}.used"


def fetch(spec: StoreSpec, name: str, place: str) -> bool:
    """Download the environment with this hash and unpack it into `place`; False when the store has none.
    Blocks.

    Raises ObjectsError, WorkFailed or OSError; `place` then holds an incomplete environment.
    """
    objects = open_objects(spec)
    info = objects.head(key_of(name))
    if info is None:
        return False
    archive = os.path.join(place, f"archive{_SUFFIX}")
    with open(archive, "wb") as file:
        for start in range(0, info.size, _PIECE):
            file.write(objects.get_range(key_of(name), start, min(_PIECE, info.size - start)))
    unpack(archive, place)
    os.unlink(archive)
    used = objects.head(used_key_of(name))
    if used is None or time.time() - used.modified > _RENEW_S:
        objects.put(used_key_of(name), b"")
    return True


def send(spec: StoreSpec, name: str, place: str) -> int:
    """Pack the environment in `place` and send it to the store; the bytes sent. Replaces an existing archive.
    Blocks.

    Raises ObjectsError or OSError; the store then has a complete older archive or none.
    """
    archive = os.path.join(place, f"archive{_SUFFIX}")
    try:
        pack(archive, place)
        objects = open_objects(spec)
        size: int = objects.put_stream(key_of(name), _pieces(archive))
        objects.put(used_key_of(name), b"")
        return size
    finally:
        try:
            os.unlink(archive)
        except FileNotFoundError:
            pass


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(_PIECE), b"")


def pack(archive: str, place: str) -> None:
    files.write_whole(os.path.join(place, _ORIGIN), os.fsencode(place))
    with tarfile.open(archive, "w:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as tar:
        for root in (_ORIGIN, *_ROOTS):
            if os.path.lexists(os.path.join(place, root)):
                tar.add(os.path.join(place, root), arcname=root)


def unpack(archive: str, place: str) -> None:
    """Unpack an archive. WorkFailed when it is damaged, or has a name that leads out of `place`."""
    links: Set[str] = set()
    folders = []
    try:
        with tarfile.open(archive, "r:gz") as tar:
            # Python 3.14 refuses links to the interpreter by itself; `_check` decides instead.
            tar.extraction_filter = lambda member, path: member
            for member in tar:
                _check(member, links)
                if member.isdir():
                    # A read-only folder cannot be filled, so its mode is set after all files are unpacked.
                    folders.append((os.path.join(place, member.name), member.mode))
                    member.mode = 0o700
                member.uid, member.gid = os.getuid(), os.getgid()
                member.uname = member.gname = ""
                tar.extract(member, place, numeric_owner=True)
    except (tarfile.TarError, EOFError) as error:
        raise WorkFailed(f"the archive of the packages in the store cannot be read: {error}") from error
    _relocate(place)
    for path, mode in reversed(folders):
        os.chmod(path, mode & 0o777)


def _relocate(place: str) -> None:
    """Rewrite scripts and links from the path of the build to this path. Does nothing when both are the
    same.
    """
    try:
        with open(os.path.join(place, _ORIGIN), "rb") as file:
            origin = file.read()
    except FileNotFoundError as error:
        raise WorkFailed("the archive of the packages does not say where it was built") from error
    here = os.fsencode(place)
    if origin == here:
        return
    env = os.path.join(glob.escape(place), ENVIRONMENT)
    for path in [one for part in _NAMING for one in glob.glob(os.path.join(env, part, "*"))]:
        if os.path.islink(path):
            _relink(path, os.fsdecode(origin), place)
        elif os.path.isfile(path) and os.path.getsize(path) < _LONGEST_SCRIPT:
            _rewrite(path, origin, here)


def _relink(path: str, origin: str, place: str) -> None:
    target = os.readlink(path)
    if target.startswith(origin + "/"):
        os.unlink(path)
        os.symlink(place + target[len(origin) :], path)


def _rewrite(path: str, origin: bytes, here: bytes) -> None:
    with open(path, "rb") as file:
        data = file.read()
    if origin in data and b"\0" not in data:
        mode = os.stat(path).st_mode & 0o777
        files.write_whole(path, data.replace(origin, here), mode=mode)
        os.chmod(path, mode)


def _check(member: tarfile.TarInfo, links: Set[str]) -> None:
    is_plain = member.isreg() or member.isdir() or member.issym() or member.islnk()
    named = [member.name, *([member.linkname] if member.islnk() else [])]
    if not is_plain or member.mode & 0o7000 or not all(_is_inside(one, links) for one in named):
        raise WorkFailed(
            f"the archive of the packages in the store holds `{member.name}`, which gofer never packs"
        )
    if member.issym():
        links.add(member.name)


def _is_inside(name: str, links: Set[str]) -> bool:
    parts = name.split("/")
    above = {"/".join(parts[:count]) for count in range(1, len(parts))}
    is_ours = parts[0] in _ROOTS or name == _ORIGIN
    return is_ours and ".." not in parts and "" not in parts and not above & links
