"""Names of files that are neither code nor results: caches, leftovers of editors, histories of other tools.

Snapshots leave these files out, and gofer does not keep them after a run.
"""

from __future__ import annotations

# Names of folders, at any depth.
FOLDERS = (
    "__pycache__",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    ".hg",
    ".svn",
)
ENDINGS = (".pyc", ".pyo")
FILES = (".DS_Store",)

# More folders that are not kept after a run: the tool that made them can make them again.
_INSTALLED = (".git", ".venv", "node_modules", ".cache")
# A folder that holds one of these is an environment of Python packages.
_MARKS = ("pyvenv.cfg", "conda-meta")
_NOT_KEPT = frozenset((*FOLDERS, *_INSTALLED))


def is_junk_folder(name: str) -> bool:
    """Whether a folder of this name is not worth keeping."""
    return name in _NOT_KEPT


def is_junk_file(name: str) -> bool:
    """Whether a file of this name is not worth keeping."""
    return name.endswith(ENDINGS) or name in FILES


def environment_marks(folder: str) -> list[str]:
    """Paths, at least one of which exists if `folder` is an environment of Python packages."""
    return [f"{folder}/{mark}" for mark in _MARKS]
