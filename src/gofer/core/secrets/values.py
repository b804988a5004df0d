"""Find the secret values in a `.env`, key or credentials file, which a log must not show."""

from __future__ import annotations

import base64
import json
import os
import re
from typing import Any, Iterator, List, Mapping

from gofer.core.secrets.mask import LEAST_LENGTH

# The most values of all files of a run together, and the most bytes that are read of each file.
MOST_VALUES = 1000
MOST_BYTES = 64 * 1024
_SETTING = re.compile(r"(?:export\s+)?[\w.-]+\s*[=:]\s*(.*)", re.ASCII)
_QUOTED = re.compile(r"""(["'`])(.*?)\1""")
_COMMENT = re.compile(r"\s+#.*")
_LOGIN = re.compile(r"\b(?:password|account)\s+(\S+)")


def values_of(files: Mapping[str, str]) -> List[str]:
    """The values in the `files` of `gofer.core.secrets.run_secrets.RunSecrets`: at most 1,000, each once, in
    order.
    """
    found: dict[str, None] = {}
    for path, text in files.items():
        # Four characters of base64 encode three bytes.
        data = base64.b64decode(text[: -(-MOST_BYTES // 3) * 4])
        for value in values_in(path, data):
            found[value] = None
            if len(found) >= MOST_VALUES:
                return list(found)
    return list(found)


def values_in(path: str, data: bytes) -> Iterator[str]:
    """The values of eight characters or more in the first 64 KiB of one file.

    For a `.env`: the right-hand sides, without quotes and comments. For a JSON document: all strings. For any
    other file: the right-hand sides, and all lines except comments and the first and last lines of a PEM
    block.
    """
    text = data[:MOST_BYTES].decode("utf-8", "surrogateescape")
    found = _in_json(text)
    if found is None:
        is_dotenv = os.path.basename(path).lower().startswith(".env")
        found = (value for line in text.splitlines() for value in _in_line(line.strip(), is_dotenv))
    for value in found:
        if len(value) >= LEAST_LENGTH:
            yield value


def _in_line(line: str, is_dotenv: bool) -> Iterator[str]:
    if line.startswith(("#", ";", "//", "-----")):
        return
    setting = _SETTING.fullmatch(line)
    if setting is not None:
        yield _unquoted(setting[1])
    for login in _LOGIN.finditer(line):
        yield login[1]
    if setting is None or not is_dotenv:
        yield line


def _unquoted(value: str) -> str:
    quoted = _QUOTED.match(value)
    return quoted[2] if quoted else _COMMENT.sub("", value).strip("\"'`")


def _in_json(text: str) -> Iterator[str] | None:
    """The lines of all strings in a JSON document; None when the text is not a JSON document."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (line for value in _texts(document) for line in value.splitlines() if "-----" not in line)


def _texts(document: Any) -> Iterator[str]:
    left = [document]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, (dict, list)):
            left.extend(one.values() if isinstance(one, dict) else one)
