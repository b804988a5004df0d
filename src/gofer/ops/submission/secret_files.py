"""Send files that look like secrets and are named in `include:` together with the private values of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gofer.core.secrets import secret_files
from gofer.core.secrets.secret_files import MOST_BYTES, looks_like_secret
from gofer.errors import CheckFailed
from gofer.ops.messages import Message
from gofer.text import format_size

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.ops.submission.code import Source

_MOST_BYTES = 1 << 20
_PATTERN = re.compile(r"[*?\[\\!#]")


def collect(session: Session, source: Source) -> dict[str, str]:
    """The contents of the named files by their paths in the code, in the form of `RunSecrets`. Tells the
    person which files are sent.

    CheckFailed for a file that cannot be read, and for more than 1 MiB in total.
    """
    found: dict[str, bytes] = {}
    for path in named_secrets(session, source):
        try:
            with open(os.path.join(source.folder, path), "rb") as file:
                found[path] = file.read(_MOST_BYTES + 1)
        except (FileNotFoundError, IsADirectoryError):
            session.emit(Message(f"`{path}` is named in `include:` but does not exist"))
        except OSError as error:
            raise CheckFailed(f"cannot read `{path}`, which `include:` names: {error.strerror}") from error
    size = sum(map(len, found.values()))
    if size > _MOST_BYTES:
        raise CheckFailed(
            f"the secret files named in `include:` have more than {format_size(_MOST_BYTES)}",
            hint="keep large files in a mapped folder, see `folders:`",
        )
    large = [f"`{path}`" for path, data in found.items() if len(data) > MOST_BYTES]
    if large:
        size_text = format_size(MOST_BYTES)
        session.emit(Message(f"logs mask only the values in the first {size_text} of {', '.join(large)}"))
    if found:
        session.emit(Message(f"sent as a secret of the run: {', '.join(f'`{path}`' for path in found)}"))
    return secret_files.encode(found)


def named_secrets(session: Session, source: Source) -> Iterator[str]:
    """The paths that look like secrets and are named in full, without a pattern."""
    for base, patterns in (("", session.settings.include), (source.workdir, source.include)):
        for pattern in patterns:
            path = os.path.normpath(os.path.join(base, pattern.lstrip("/")))
            is_plain = not _PATTERN.search(pattern) and not pattern.endswith("/")
            if is_plain and not path.startswith("..") and looks_like_secret(path):
                yield path
