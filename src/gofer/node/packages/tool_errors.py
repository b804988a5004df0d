"""Which of the words of pip, uv and conda say why a build failed. Pure."""

from __future__ import annotations

import re
from typing import List, Sequence

# pip and uv begin the line with `error`, conda with the name of an exception.
_ERROR = re.compile(r"(?i:error|fatal)\b|[A-Za-z]*(Error|NotFound|Exception)\w*: ")
# Lines below an error that belong to it: the cause that uv names, the packages that conda lists.
_BELONGING = re.compile(r"(?i:cause): |- ")
_UNREACHED = re.compile(
    r"(?i)name resolution|name or service not known|failed to resolve|dns error|network is unreachable"
    r"|failed to establish a new connection|connection refused|connect timeout|CONNECTION FAILED for url"
    r"|error sending request for url|failed to connect"
)
_ENSUREPIP = "No module named ensurepip"
_ADVICE = "the node cannot reach the package index: `--wheels FOLDER` builds without one"
_LONGEST = 400


def main_error(lines: Sequence[str]) -> str:
    """The last error with what belongs to it, in one line; the last line of a tool that names none.

    Where the tool reached no package index, what to do about that in place of what belongs to the error.
    """
    said = [line.strip() for line in lines]
    if any(line.endswith(_ENSUREPIP) for line in said):
        return "it has no ensurepip; install python3-venv, or uv, on the node"
    start = next((n for n in reversed(range(len(said))) if _ERROR.match(said[n])), None)
    if start is None:
        return ([line for line in said if line] or ["it said nothing"])[-1]
    if any(_UNREACHED.search(line) for line in said):
        return f"{said[start]}; {_ADVICE}"
    return " ".join([said[start], *_belonging(said[start + 1 :])])[:_LONGEST]


def _belonging(lines: Sequence[str]) -> List[str]:
    found: List[str] = []
    for line in filter(None, lines):
        if not _BELONGING.match(line):
            break
        found.append(line)
    return found
