"""The agent as one zip file of Python sources, for machines that have only Python.

Python can also run the file itself; see gofer.node.zip_program.
"""

from __future__ import annotations

import hashlib
import io
from functools import cache
from pathlib import Path
from typing import NamedTuple

_GOFER = Path(__file__).resolve().parents[1]
# The packages that run on nodes. They use only the standard library and each other.
NODE_PACKAGES = ("core", "objects", "node", "queue", "remote")
_MARK_LENGTH = 16
# The name of a file in the zip that holds the mark; the mark does not cover this file. It is a file and not
# the zip's comment, because Pythons before 3.8 do not run archives with a comment.
MARK = "mark"
# In the syntax of every Python, so that an old Python can print the error.
_MAIN = b"""import sys
if sys.version_info < (3, 8):
    sys.exit("gofer: this node has Python %d.%d; gofer needs 3.8 or later" % sys.version_info[:2])
from gofer.node.zip_program import main
main()
"""


class Bundle(NamedTuple):
    """The agent. `mark` is a hash of the contents: the same sources have the same mark on every machine."""

    mark: str
    data: bytes


@cache
def mark() -> str:
    """The mark of the agent of this gofer."""
    digest = hashlib.sha256()
    for name, content in _sources():
        # Name and length, so that moved content gives another mark.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_MARK_LENGTH]


def source(path: str) -> bytes:
    """The text of a module of gofer, by its path below the package."""
    return (_GOFER / path).read_bytes()


def bundle() -> Bundle:
    """A zip file with the packages of the node side, an otherwise empty `gofer` package, and the mark."""
    import zipfile  # slow to load, and needed only when a machine does not have the agent yet

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _sources():
            # ZipInfo without a time: equal sources give equal bytes.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(MARK), mark())
    return Bundle(mark(), packed.getvalue())


@cache
def _sources() -> list[tuple[str, bytes]]:
    found = [("__main__.py", _MAIN), ("gofer/__init__.py", b"")]
    for package in NODE_PACKAGES:
        for path in sorted((_GOFER / package).rglob("*.py")):
            found.append((f"gofer/{path.relative_to(_GOFER).as_posix()}", path.read_bytes()))
    return found
