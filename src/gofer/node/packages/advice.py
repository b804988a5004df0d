"""Advice for a person whose run failed because a module or Python itself is missing."""

from __future__ import annotations

import os
import re
from typing import Optional, Sequence

from gofer.node.packages.package_files import AUTO, Read, find

_MODULE = re.compile(r"No module named '?([A-Za-z_][A-Za-z0-9_]*)")
_PROGRAM = re.compile(r"(?:cannot run `|line \d+: |^sh: \d+: )(python3?|pip|torchrun|accelerate)\b[`:]")


def missing_packages(tail: Sequence[str], code: str, workdir: str, built: Optional[str]) -> Optional[str]:
    """A sentence that says what to do; None when the last lines of the log name no missing module or program.

    `built` is the file whose packages the run had. A module that is part of the code is not a package.
    """
    missing = _missing(tail, code, workdir)
    if missing is None:
        return None
    if built is not None:
        return f"`{missing}` is not among the packages of {built}: add it there"
    file = find(AUTO, os.path.relpath(workdir, code), _reader(code))
    list_name = "a requirements.txt" if file is None else file.path
    return f"`{missing}` is not installed on the node: `--packages auto` installs what {list_name} lists"


def _missing(tail: Sequence[str], code: str, workdir: str) -> Optional[str]:
    for line in reversed(tail):
        module, program = _MODULE.search(line), _PROGRAM.search(line)
        if module and not _is_in_code(module.group(1), code, workdir):
            return module.group(1)
        if program:
            return program.group(1)
    return None


def _is_in_code(module: str, code: str, workdir: str) -> bool:
    folders = (workdir, code, os.path.join(code, "src"))
    return any(os.path.exists(os.path.join(one, module + end)) for one in folders for end in ("", ".py"))


def _reader(code: str) -> Read:
    from gofer.node.packages.provide import read_code

    return read_code(code)
