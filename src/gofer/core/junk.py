"""Names of files that are neither code nor results: caches, editors' droppings, the history of other tools.

They go into no snapshot and are not kept of a run.
"""

from __future__ import annotations

# Folders of these names, wherever they are.
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

# Further folders that are not kept of a run: the tool that made them makes them again.
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
    """Paths of which one is there where `folder` is an environment of packages."""
    return [f"{folder}/{mark}" for mark in _MARKS]
