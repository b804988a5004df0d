"""Valid documents made wrong: a value of another type, a key twice, too deep, torn, of other bytes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from fuzz.words import KEYS, SCALARS, word

_DEEP = 3000
_INSERTED = [
    "\t",
    ":",
    "&a *a",
    "!!python/object",
    "<<",
    "]",
    "}",
    "\x00",
    "- ",
    '"',
    "\ud800",
    "\ufeff",
    "\r",
    "#",
]
_BYTES = [
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\n",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"\x1b]0;x\x07",
]


def tree(rng: Random, depth: int) -> object:
    """A value as YAML and JSON have them, with keys that settings know."""
    kind = rng.random()
    if depth == 0 or kind < 0.35:
        return scalar(rng)
    if kind < 0.85:
        return {
            rng.choice(KEYS) if rng.random() < 0.8 else word(rng): tree(rng, depth - 1)
            for _ in range(rng.randrange(4))
        }
    return [tree(rng, depth - 1) for _ in range(rng.randrange(4))]


def scalar(rng: Random) -> object:
    return copy.deepcopy(rng.choice(SCALARS)) if rng.random() < 0.7 else word(rng)


def mutated(rng: Random, value: Any, times: int | None = None) -> Any:
    """A copy of a document with one to three places changed."""
    found = copy.deepcopy(value)
    for _ in range(rng.choice([1, 1, 1, 2, 3]) if times is None else times):
        places = list(_places(found))
        if not places:
            return scalar(rng)
        holder, key = rng.choice(places)
        _change(rng, holder, key, places)
    return found


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (map or list, key) in a document."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _change(rng: Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    old = holder[key]
    kind = rng.randrange(8)
    if kind < 3:
        holder[key] = scalar(rng)
    elif kind == 3:
        holder[key] = rng.choice([[old], {"a": old}, [old] * 50, str(old), [old, scalar(rng)], tree(rng, 3)])
    elif kind == 4:
        del holder[key]
    elif kind == 5 and isinstance(holder, dict):
        holder[rng.choice([rng.choice(KEYS), word(rng), f"{key}_", str(key).upper()])] = holder.pop(key)
    elif kind == 6:
        other, at = rng.choice(places)
        holder[key] = copy.deepcopy(other[at])
    elif isinstance(old, str):
        place = rng.randrange(len(old) + 1)
        holder[key] = old[:place] + word(rng) + old[place:]
    elif isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = rng.choice([-old, old * 10**18, old - 1, str(old), 0.5])
    else:
        holder[key] = scalar(rng)


def encoded(rng: Random, value: object) -> bytes:
    """A document as JSON, which YAML reads too; one time in five damaged as text or as bytes."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.6)
    kind = rng.random()
    if kind < 0.08:
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(_INSERTED) + text[place:]
    elif kind < 0.11 and text.startswith('{"'):
        text = "{" + text[1 : text.index(":") + 1] + rng.choice(["1,", '"x",', "null,", "{},"]) + text[1:]
    elif kind < 0.13:
        opened = rng.choice(['{"a":', "[", '{"a":['])
        place = text.find(":") + 1
        text = text[:place] + opened * _DEEP
    data = text.encode("utf-8", "surrogatepass" if rng.random() < 0.5 else "replace")
    return damaged(rng, data) if rng.random() < 0.08 else data


def damaged(rng: Random, data: bytes) -> bytes:
    """Bytes cut off, doubled, overwritten or inserted."""
    place = rng.randrange(len(data) + 1)
    kind = rng.randrange(5)
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + rng.choice(_BYTES) + data[place:]
    if kind == 2:
        return data[:place] + rng.randbytes(rng.choice([1, 4, 40])) + data[place + rng.choice([0, 1, 4]) :]
    if kind == 3:
        return data + data[place:]
    return rng.choice([b"", b"\x00" * 50, rng.randbytes(200), b"[" * 100_000, b'{"a":' * _DEEP, data * 40])


def document(rng: Random, templates: list[Any]) -> bytes:
    """One of the documents with a few places changed, or a document of chance."""
    if rng.random() < 0.2:
        return encoded(rng, tree(rng, 4))
    return encoded(rng, mutated(rng, rng.choice(templates)))
