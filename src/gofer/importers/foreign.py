"""Reads a file of another tool, YAML or JSON, as a tree of nodes. The file may be hostile."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from gofer.config.yaml.document import display, parse_document, read_text
from gofer.config.yaml.nodes import Table
from gofer.errors import ConfigError
from gofer.importers.keys import leaves

# JSON writes a character beyond the first 65,536 as two halves, which YAML does not join.
_HALVES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def read_foreign(path: Path) -> Table:
    """The file's map; ConfigError with file and line for a file that is broken, huge, deep or a bomb."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read `{display(path)}`: {reason}") from None
    if not stat.S_ISREG(mode):
        raise ConfigError(f"`{display(path)}` is no file")
    text = read_text(path)
    if path.suffix == ".json":
        text = _HALVES.sub(_joined, text)
    document = parse_document(text, source=path.name, path=display(path))
    for _ in leaves(document):
        pass
    return document


def _joined(match: re.Match[str]) -> str:
    high, low = int(match[2], 16), int(match[3], 16)
    return f"{match[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def project_of(path: Path, folder: Path) -> Path:
    """The folder that paths in the file are relative to: the one that holds `aux_data`, else `folder`."""
    for parent in path.parents:
        if parent.name == "aux_data":
            return parent.parent
    return folder


def named_file(root: Path, name: str) -> Path:
    """The file that another file names."""
    return Path(os.path.normpath(root / os.path.expanduser(name)))
