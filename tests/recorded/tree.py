"""A folder as one JSON document, and back: text as lines, databases as SQL, other bytes as base64."""

from __future__ import annotations

import base64
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "files"
_DATABASE = b"SQLite format 3\0"
_USUAL = 0o644
_PRAGMAS = ("user_version", "application_id")
# Caches, copies of the source, tokens, and files that say nothing once a database or supervisor is closed.
_LEFT_OUT = re.compile(
    r"(/cache/.*|/azure/tokens(/.*)?|^far/agents?/.*|-wal|-shm|/wake|supervisor\.(lock|log)|\.aside)$"
)


def save(root: Path, folders: Iterable[str], names: Mapping[str, str]) -> dict[str, Any]:
    """Every file below these folders of `root`; `names` maps words of this machine to placeholders."""
    found = {}
    tops = [root / folder for folder in folders]
    for path in sorted(one for top in tops for one in ([top] if top.is_file() else top.rglob("*"))):
        name = str(path.relative_to(root))
        if not _LEFT_OUT.search(name) and (path.is_symlink() or not path.is_dir() or not os.listdir(path)):
            found[hidden(name, names)] = _entry(path, names)
    return found


def hidden(text: str, names: Mapping[str, str]) -> str:
    """The text with placeholders for the words of this machine."""
    for word, placeholder in names.items():
        text = text.replace(word, placeholder)
    return text


def shown(text: str, words: Mapping[str, str]) -> str:
    """The text with its placeholders replaced."""
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text


def restore(files: Mapping[str, Any], root: Path, words: Mapping[str, str]) -> None:
    """Make the files again below `root`."""
    for name, entry in files.items():
        path = root / shown(name, words)
        path.parent.mkdir(parents=True, exist_ok=True)
        if "folder" in entry:
            path.mkdir(exist_ok=True)
        elif "link" in entry:
            path.symlink_to(shown(entry["link"], words))
        elif "sql" in entry:
            _restore_database(path, entry, words)
        else:
            path.write_bytes(content(entry, words))
        if "link" not in entry:
            os.chmod(path, entry.get("mode", _USUAL))


def content(entry: Mapping[str, Any], words: Mapping[str, str]) -> bytes:
    """The bytes of a file that is no database."""
    if "base64" in entry:
        return base64.b64decode(entry["base64"])
    text = _as_text(entry["json"]) if "json" in entry else "".join(entry["text"])
    return shown(text, words).encode()


def read(name: str) -> dict[str, Any]:
    """A recorded document; FileNotFoundError when it does not exist."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def _entry(path: Path, names: Mapping[str, str]) -> dict[str, Any]:
    if path.is_symlink():
        return {"link": hidden(str(path.readlink()), names)}
    status = path.stat()
    facts = {"mode": status.st_mode & 0o7777} if status.st_mode & 0o7777 != _USUAL else {}
    if path.is_dir():
        return {"folder": True, **facts}
    data = path.read_bytes()
    if data.startswith(_DATABASE):
        return {**_dumped(path, names), **facts}
    return {**of_bytes(data, names), **facts}


def of_bytes(data: bytes, names: Mapping[str, str]) -> dict[str, Any]:
    """A file of these bytes; AssertionError for binary data that contains a name of this machine."""
    try:
        text = hidden(data.decode(), names)
    except UnicodeDecodeError:
        held = [word for word in names if word.encode() in data]
        assert not held, f"{held} in bytes that are no text: {data[:80]!r}"
        return {"base64": base64.b64encode(data).decode()}
    values = _as_json(text.splitlines(keepends=True))
    return {"text": text.splitlines(keepends=True)} if values is None else {"json": values}


def _as_json(lines: list[str]) -> list[Any] | None:
    """The documents that these lines are, where `_as_text` makes the very lines of them again; else None."""
    try:
        values = [[json.loads(line), line.endswith("\n")] for line in lines if line[0] in "[{"]
    except ValueError:
        return None
    return values if values and _as_text(values) == "".join(lines) else None


def _as_text(values: Iterable[Sequence[Any]]) -> str:
    return "".join(
        json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n" * ends for value, ends in values
    )


def _dumped(path: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """Statements that make the tables, and the rows of each."""
    with closing(sqlite3.connect(path)) as database:
        made = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL").fetchall()
        tables = [name for kind, name, _ in made if kind == "table"]
        rows = {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
        pragmas = {name: database.execute(f"PRAGMA {name}").fetchone()[0] for name in _PRAGMAS}
    kept = {name: [[_cell(value, names) for value in row] for row in found] for name, found in rows.items()}
    return {"sql": [sql for _, name, sql in made if not name.startswith("sqlite_")], "rows": kept, **pragmas}


def _cell(value: Any, names: Mapping[str, str]) -> Any:
    """A number or a text as it is; a document as a list of what it holds and whether the cell is of bytes."""
    if not isinstance(value, str | bytes):
        return value
    text = hidden(value.decode() if isinstance(value, bytes) else value, names)
    found = _as_json([text]) if text else None
    if found is None and isinstance(value, str):
        return text
    return [text if found is None else found, isinstance(value, bytes)]


def _restore_database(path: Path, entry: Mapping[str, Any], words: Mapping[str, str]) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in entry["sql"]:
            database.execute(statement)
        for name, rows in entry["rows"].items():
            database.execute(f"DELETE FROM {name}")
            for row in rows:
                cells = [_cell_again(value, words) for value in row]
                database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(cells))})", cells)
        for name in _PRAGMAS:
            database.execute(f"PRAGMA {name} = {entry[name]}")
        database.commit()


def _cell_again(value: Any, words: Mapping[str, str]) -> Any:
    if not isinstance(value, list):
        return shown(value, words) if isinstance(value, str) else value
    held, is_bytes = value
    text = shown(held if isinstance(held, str) else _as_text(held), words)
    return text.encode() if is_bytes else text
