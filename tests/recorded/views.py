"""What gofer says of recorded runs: the command lines, and their answers in a form that can be compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from home import Home

from recorded.tree import hidden

# Sentences for people, whose wording may change, and the time of the last refresh.
_FREE = {"observed_at", "why", "hint", "hints", "next", "summary", "heartbeat_age_s", "log_age_s", "modified"}


def commands(runs: Sequence[Mapping[str, Any]], *, whole: bool) -> list[list[str]]:
    """The command lines that show these runs, of which each prints JSON or a log; `whole`: in every form."""
    found = []
    for run in runs:
        name = run["id"]
        found.append(["q", "--json", name])
        if run["kind"] == "run":
            numbers = [attempt["number"] for attempt in run["attempts"]]
            found += [["logs", "--attempt", str(number), name] for number in numbers]
            if whole or run["name"] == "good":
                found += [["logs", "--json", name], ["ls", "-r", "--json", f"{name}:"]]
            if run["name"] == "good":
                found.append(["extract", "-Q", name])
        if whole and run["state"] != "succeeded":
            found.append(["why", "--json", name])
    return found


def answer(home: Home, words: Sequence[str], names: Mapping[str, str]) -> dict[str, Any]:
    """The exit status and the answer of a command, with placeholders for the words of this machine."""
    if words[0] == "extract":
        return _extracted(home, words, names)
    done = home.gofer(*words, status=None)
    value: Any = hidden(done.out, names)
    if "--json" in words and value:
        value = lasting(json.loads(value))
    return {"status": done.status, "answer": value}


def lasting(value: Any) -> Any:
    """A document without what is empty, or may change between two readings or two versions.

    A log may name a folder of the machine, so the size of a log differs from place to place.
    """
    if isinstance(value, dict):
        free = {*_FREE, "size"} if "rank" in value else _FREE
        kept = {name: one for name, one in value.items() if name not in free and one not in (None, [], {})}
        return {name: lasting(one) for name, one in kept.items()}
    return [lasting(one) for one in value] if isinstance(value, list) else value


def _by_key(value: Any) -> Any:
    """The entries of `config show --json` by their keys; any other value unchanged."""
    is_settings = isinstance(value, list) and value and all(map(_is_setting, value))
    return {one["key"]: one for one in value} if is_settings else value


def _is_setting(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"key", "value", "origin"}


def assert_holds(new: Any, old: Any, where: str) -> None:
    """AssertionError unless `new` has all that `old` has; documents may have more fields, settings more
    keys, and a list that was empty may have entries, as that of the logs of an array.
    """
    old, new = _by_key(old), _by_key(new)
    if isinstance(old, dict):
        assert isinstance(new, dict) and old.keys() <= new.keys(), f"{where}: {new!r} lacks fields of {old!r}"
        for name in old:
            assert_holds(new[name], old[name], f"{where}.{name}")
    elif isinstance(old, list) and old:
        assert isinstance(new, list) and len(new) == len(old), f"{where}: {new!r} instead of {old!r}"
        for number, (one, other) in enumerate(zip(new, old, strict=True)):
            assert_holds(one, other, f"{where}[{number}]")
    elif old != []:
        assert new == old, f"{where}: {new!r} instead of {old!r}"


def _extracted(home: Home, words: Sequence[str], names: Mapping[str, str]) -> dict[str, Any]:
    """Mode and content of each file that came back, and when code was last changed."""
    there = home.root / "extracted"
    done = home.gofer(*words, str(there), status=None)
    found: dict[str, Any] = {}
    for path in sorted(there.rglob("*")):
        name = hidden(str(path.relative_to(there)), names)
        if path.is_symlink():
            found[name] = ["link", str(path.readlink())]
        elif path.is_file():
            text, status = path.read_text(errors="backslashreplace"), path.stat()
            found[name] = [oct(status.st_mode & 0o777), _lines(text, names)]
            if name.startswith(
                "code/"
            ):  # the times of code are recorded; those of other files are the store's
                found[name].append(status.st_mtime_ns)
    shutil.rmtree(there, ignore_errors=True)
    return {"status": done.status, "answer": found}


def _lines(text: str, names: Mapping[str, str]) -> list[str]:
    return hidden(text, names).splitlines(keepends=True)


def as_file(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, an entry of its tables a line."""
    path.parent.mkdir(exist_ok=True)
    parts = [f"{json.dumps(name)}: {_table(value)}" for name, value in document.items()]
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _table(value: Any) -> str:
    if isinstance(value, dict):
        lines = [f"{json.dumps(name)}: {_compact(one)}" for name, one in value.items()]
        return "{\n" + ",\n".join(lines) + "\n}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(_compact(one) for one in value) + "\n]"
    return json.dumps(value)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
