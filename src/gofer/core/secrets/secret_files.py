"""Files that look like secrets: they are recognised by their names (`.env`, private keys, credentials), and
sent with the private values of a run only if they are named exactly.

No pattern includes such a file: it goes into no snapshot, no pack and no outputs. The submitting side and
the node use the same function. The working copy gets such files with mode 0600, and logs do not show the
values in them.
"""

from __future__ import annotations

import base64
import json
import os
import re
from typing import Iterator, List, Mapping

from gofer.core import files
from gofer.core.secrets.mask import LEAST_LENGTH

# The most values of all files of a run together, and the most bytes that are read of each file.
MOST_VALUES = 1000
MOST_BYTES = 64 * 1024
_SETTING = re.compile(r"(?:export\s+)?[\w.-]+\s*[=:]\s*(.*)", re.ASCII)
_QUOTED = re.compile(r"""(["'`])(.*?)\1""")
_COMMENT = re.compile(r"\s+#.*")
_LOGIN = re.compile(r"\b(?:password|account)\s+(\S+)")
# `.env` is a secret; `.env.example` only shows what to write into `.env`.
_TEMPLATES = (".example", ".sample", ".template", ".dist")
_KEYS = (".pem", ".key")
# A source file about credentials is code; the files it reads (`credentials.json`, `credentials`) are secrets.
_SOURCES = re.compile(r".*\.(pyi?|ipynb|sh|[jt]sx?|go|rs|java|kt|cc?|cpp|cu|h|hpp|rb|r|jl|md|rst|html)")


def encode(contents: Mapping[str, bytes]) -> dict[str, str]:
    """Path → contents, as `gofer.core.secrets.run_secrets.RunSecrets` keeps them."""
    return {path: base64.b64encode(data).decode("ascii") for path, data in contents.items()}


def write(code: str, sealed: Mapping[str, str]) -> None:
    """Write the files into the folder `code`. Idempotent; ValueError for a path that leads out of the
    folder.
    """
    for path, text in sealed.items():
        target = os.path.normpath(os.path.join(code, path))
        if not target.startswith(code.rstrip("/") + "/"):
            raise ValueError(f"the private file `{path}` would be outside the code folder")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        files.write_whole(target, base64.b64decode(text), mode=0o600)


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


def _texts(document: object) -> Iterator[str]:
    left = [document]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, (dict, list)):
            left.extend(one.values() if isinstance(one, dict) else one)


def looks_like_secret(path: str) -> bool:
    """Whether the file at `path` looks like a secret. Pure; case does not matter.

    `path` is the name or path, with `/`, of a file or a link, not of a folder. Only the last name counts, and
    whether the file is in a folder `.aws`.
    """
    folder, _, name = path.lower().rpartition("/")
    if name.endswith(_TEMPLATES):
        return False
    if name.startswith(".env") or name == ".netrc" or name.endswith(_KEYS):
        return True
    if name.startswith("id_") and "." not in name:
        return True
    if "credentials" in name and not _SOURCES.fullmatch(name):
        return True
    return ".aws" in folder.split("/")
