"""Unpack the `.git` folder of a run that was submitted with `--with-git` into its working copy.

Any person with access to the store may have written the archive. So only files and folders with plain names
are created, in a folder that did not exist before.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tarfile
from typing import Iterator

from gofer.core.code.snapshot_names import ManifestError

_NAME = re.compile(r"(?:config|HEAD|packed-refs|shallow|index|(?:objects|refs)(?:/[A-Za-z0-9][\w.-]*)*)")
_MOST_BYTES = 1 << 30


def unpack(data: bytes, copy: str) -> None:
    """Create `.git` in the copy, unless it exists. ManifestError for an archive that gofer would not make."""
    target = os.path.join(copy, ".git")
    if os.path.lexists(target):
        return
    part = f"{target}.part-{os.getpid()}"
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for entry in _checked(archive):
                _make(archive, entry, os.path.join(part, entry.name))
        os.rename(part, target)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise ManifestError(f"the git repository of the run is damaged: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _checked(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    left = _MOST_BYTES
    for entry in archive:
        left -= entry.size
        if _NAME.fullmatch(entry.name) is None or not (entry.isfile() or entry.isdir()) or left < 0:
            raise ManifestError(
                f"the git repository of the run has an unexpected entry: {entry.name[:100]!r}"
            )
        yield entry


def _make(archive: tarfile.TarFile, entry: tarfile.TarInfo, path: str) -> None:
    os.makedirs(path if entry.isdir() else os.path.dirname(path), exist_ok=True)
    source = archive.extractfile(entry) if entry.isfile() else None
    if source is not None:
        with source, open(path, "xb") as file:
            shutil.copyfileobj(source, file)
