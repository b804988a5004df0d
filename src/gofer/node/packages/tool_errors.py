"""Find the part of the output of pip, uv and conda that says why a build failed. Pure."""

from __future__ import annotations

import re
from typing import List, Sequence

# pip and uv begin the line with `error`, conda with the name of an exception.
_ERROR = re.compile(r"(?i:error|fatal)\b|[A-Za-z]*(Error|NotFound|Exception)\w*: ")
# Lines after an error that belong to it: the cause that uv names, the packages that conda lists.
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
    """The last error with the lines that belong to it, as one line. If the tool printed no error, its last
    line.

    If the tool could not reach a package index, advice about that follows the error instead.
    """
    output = [line.strip() for line in lines]
    if any(line.endswith(_ENSUREPIP) for line in output):
        return "it has no ensurepip; install python3-venv, or uv, on the node"
    start = next((n for n in reversed(range(len(output))) if _ERROR.match(output[n])), None)
    if start is None:
        return ([line for line in output if line] or ["it printed nothing"])[-1]
    if any(_UNREACHED.search(line) for line in output):
        return f"{output[start]}; {_ADVICE}"
    return " ".join([output[start], *_belonging(output[start + 1 :])])[:_LONGEST]


def _belonging(lines: Sequence[str]) -> List[str]:
    found: List[str] = []
    for line in filter(None, lines):
        if not _BELONGING.match(line):
            break
        found.append(line)
    return found
