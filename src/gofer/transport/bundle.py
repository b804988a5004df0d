"""The agent as one file that can be sent to a machine with nothing but Python: its sources, zipped.

Python can also run the file itself: see gofer.node.zip_program.
"""

from __future__ import annotations

import hashlib
import io
from functools import cache
from pathlib import Path
from typing import NamedTuple

_GOFER = Path(__file__).resolve().parents[1]
# The packages that run on nodes: standard library only, and nothing else of gofer.
NODE_PACKAGES = ("core", "objects", "node", "queue", "remote")
_MARK_LENGTH = 16
# The one file that the mark does not cover. Pythons before 3.8 do not run archives with a comment.
MARK = "mark"
# Read by every Python there is, so that one that is too old says so.
_MAIN = b"""import sys
if sys.version_info < (3, 8):
    sys.exit("gofer: this node has Python %d.%d; gofer needs 3.8 or later" % sys.version_info[:2])
from gofer.node.zip_program import main
main()
"""


class Bundle(NamedTuple):
    """`mark` names the contents: the same sources have the same mark, on whatever machine."""

    mark: str
    data: bytes


@cache
def mark() -> str:
    """The mark of this gofer's agent."""
    digest = hashlib.sha256()
    for name, content in _sources():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_MARK_LENGTH]


def bundle() -> Bundle:
    """A zip file with the packages of the node side, a `gofer` that holds nothing else, and the mark."""
    import zipfile  # only when a machine does not have the agent yet

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _sources():
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
