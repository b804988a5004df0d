"""Names of the parts of a snapshot: keys in the store, file names in JSON, the id."""

from __future__ import annotations

import binascii
import hashlib
from typing import Iterable, Tuple


class ManifestError(ValueError):
    """A manifest, listing, index or pack is damaged, missing or unsafe."""


def manifest_key(snapshot_id: str) -> str:
    return "snapshots/" + snapshot_id


def pack_key(pack: str) -> str:
    return "packs/" + pack


def index_key(pack: str) -> str:
    return "packs/" + pack + ".idx"


def compute_id(folders: Iterable[Tuple[bytes, bytes]]) -> str:
    """The id over (path, sha256 of the listing) pairs, which must be sorted by path."""
    digest = hashlib.sha256(b"gofer snapshot 1\0")
    for path, listing in folders:
        digest.update(path + b"\0" + listing)
    return digest.hexdigest()


def encode_name(name: bytes) -> str:
    """The name as text for JSON: unchanged if it is UTF-8, else a NUL, which no file name contains, and
    base64.
    """
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return "\0" + binascii.b2a_base64(name, newline=False).decode("ascii")


def decode_name(text: object) -> bytes:
    """The reverse of `encode_name`; ManifestError for text that `encode_name` cannot have written."""
    try:
        if not isinstance(text, str):
            raise ValueError("not a string")
        name = binascii.a2b_base64(text[1:].encode("ascii")) if text[:1] == "\0" else text.encode("utf-8")
    except ValueError as error:
        raise ManifestError(f"a name cannot be decoded: {text!r:.80}") from error
    if not name or b"\0" in name:
        raise ManifestError(f"a name is empty or holds a NUL: {text!r:.80}")
    return name
