"""Copy, move and remove trees of files on one machine. Times, modes, links and holes are kept.

A command may have taken away the permission to enter or write a folder. The owner may give it back, so these
functions do that first.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import BinaryIO, Iterable, Iterator, Optional

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE_BYTES = 16 * 1024 * 1024
# A hole is a number of whole blocks of zeros.
_BLOCK_BYTES = 4096
_STEP_ENTRIES = 256
# Errors that mean that the kernel cannot copy between these files, so that this process copies the bytes.
_CANNOT_COPY = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)


def copy_tree(source: str, destination: str, *, skips_special: bool = False) -> None:
    """Copy the folder `source` to `destination`, which must not exist. OSError when that fails.

    Sockets, pipes and devices are an error; with `skips_special` they are left out.
    """
    os.mkdir(destination)
    with os.scandir(source) as entries:
        for entry in entries:
            path = os.path.join(destination, entry.name)
            if entry.is_dir(follow_symlinks=False):
                copy_tree(entry.path, path, skips_special=skips_special)
            elif not skips_special or entry.is_symlink() or entry.is_file(follow_symlinks=False):
                copy_file(entry.path, path)
    copy_status(destination, os.stat(source))


def copy_file(source: str, destination: str) -> None:
    """Copy a file or a link to a path that must not exist. File systems that can share blocks do so.

    The holes of a sparse file stay holes. OSError for anything but a file or a link.
    """
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), destination)
        os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
        return
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "neither a file nor a link", source)
    read_fd = _open_to_read(source, status)
    try:
        write_fd = os.open(destination, _CREATE, 0o600)
        try:
            _copy_bytes(read_fd, write_fd, status)
        finally:
            os.close(write_fd)
    finally:
        os.close(read_fd)
    copy_status(destination, status)


def _open_to_read(path: str, status: os.stat_result) -> int:
    try:
        return os.open(path, _READ)
    except PermissionError:
        os.chmod(path, stat.S_IMODE(status.st_mode) | 0o400)
        return os.open(path, _READ)


def copy_status(path: str, status: os.stat_result) -> None:
    """Give a file or folder the mode and the times of `status`."""
    os.chmod(path, stat.S_IMODE(status.st_mode))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_bytes(read_fd: int, write_fd: int, status: os.stat_result) -> None:
    if status.st_blocks * 512 >= status.st_size:
        _copy_range(read_fd, write_fd, 0, status.st_size)
        return
    at = 0
    while at < status.st_size:
        start = _next_data(read_fd, at)
        if start is None:
            break
        at = os.lseek(read_fd, start, os.SEEK_HOLE)
        _copy_range(read_fd, write_fd, start, min(at, status.st_size) - start)
    os.ftruncate(write_fd, status.st_size)


def _next_data(fd: int, at: int) -> Optional[int]:
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None  # the rest of the file is a hole
        raise


def _copy_range(read_fd: int, write_fd: int, start: int, length: int) -> None:
    """Copy a range. The copy ends early when the source has become shorter in the meantime."""
    done = 0
    while done < length:
        wanted = min(length - done, _PIECE_BYTES)
        copied = _copy_piece(read_fd, write_fd, start + done, wanted)
        if copied == 0:
            return
        done += copied


def _copy_piece(read_fd: int, write_fd: int, at: int, length: int) -> int:
    try:
        return os.copy_file_range(read_fd, write_fd, length, at, at)
    except OSError as error:
        if error.errno not in _CANNOT_COPY:
            raise
    data = os.pread(read_fd, length, at)
    return os.pwrite(write_fd, data, at) if data else 0


def write_pieces(file: BinaryIO, pieces: Iterable[bytes], *, holes: bool) -> None:
    """Write the pieces one after another to an empty file. With `holes`, blocks of zeros become holes."""
    at = 0
    for piece in pieces:
        step = _BLOCK_BYTES if holes else len(piece)
        for start in range(0, len(piece), step or 1):
            block = piece[start : start + step]
            if not holes or block.strip(b"\0"):
                file.seek(at + start)
                file.write(block)
        at += len(piece)
    file.truncate(at)


def move(source: str, destination: str) -> None:
    """Move `source` to `destination` and replace what is there. Copies when the two are on different disks.

    Sockets, pipes and devices are not copied to another disk. OSError when the move fails; then `source`
    still exists.
    """
    try:
        _put(source, destination)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    part = f"{destination}.{os.getpid()}.part"
    try:
        if os.path.isdir(source) and not os.path.islink(source):
            copy_tree(source, part, skips_special=True)
        else:
            copy_file(source, part)
        _put(part, destination)
    except OSError:
        remove_tree(part)
        raise
    remove_tree(source)


def _put(source: str, destination: str) -> None:
    """Rename on one disk; a file takes the place of a folder, and a folder that of a file."""
    try:
        os.rename(source, destination)
    except (IsADirectoryError, NotADirectoryError):
        remove_tree(destination)
        os.rename(source, destination)


def remove_tree(path: str) -> None:
    """Remove a file, a link, or a folder with its contents. What cannot be removed stays. Idempotent."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            open_folders(path)
            shutil.rmtree(path, ignore_errors=True)
        return
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        open_folder(os.path.dirname(path))
        try:
            os.unlink(path)
        except OSError:
            pass  # it stays, as the docstring says


def remove_in_steps(path: str) -> Iterator[None]:
    """Like `remove_tree`, but yields between steps, so that the caller can do other work."""
    removed = 0
    try:
        for _, folders, names, fd in os.fwalk(path, topdown=False):
            for name in (*names, *folders):
                _remove_entry(name, fd)
                removed += 1
                if removed % _STEP_ENTRIES == 0:
                    yield
    except OSError:
        pass  # `path` is absent, or one of its folders is being removed by somebody else
    remove_tree(path)


def _remove_entry(name: str, folder_fd: int) -> None:
    """Remove a file, a link or an empty folder. Errors are ignored."""
    try:
        os.unlink(name, dir_fd=folder_fd)
    except OSError:
        try:
            os.rmdir(name, dir_fd=folder_fd)
        except OSError:
            pass


def open_folders(path: str) -> None:
    """Give the owner permission to enter and write `path` and every folder below."""
    open_folder(path)
    try:
        with os.scandir(path) as entries:
            below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for folder in below:
        open_folders(folder)


def open_folder(path: str) -> None:
    """Give the owner permission to enter and write one folder. Errors are ignored."""
    try:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(path, mode | 0o700)
    except OSError:
        pass  # the caller meets the same error when it uses the folder
