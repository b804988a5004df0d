"""Checks keys: relative POSIX paths that cannot leave the store."""

from __future__ import annotations

from gofer.errors import KeyNotFound, StoreError

_HINT = "a key is a relative path such as `runs/x/run.json`, without empty, `.` or `..` parts"


def check_key(key: str) -> str:
    """The key itself; StoreError when it could name a file outside the store, or no file at all.

    Bytes that are not UTF-8 may be in it as surrogates, the way Python reads them from the file system.
    """
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise StoreError(f"{key!a} is not a key: it cannot be encoded as bytes", hint=_HINT) from None
    if "\0" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise StoreError(f"{key!a} is not a key", hint=_HINT)
    return key


def check_prefix(prefix: str) -> str:
    """As `check_key`; an empty prefix means the whole store."""
    return check_key(prefix) if prefix else prefix


def no_such_key(url: str, key: str) -> KeyNotFound:
    """The error of every store for an object that does not exist."""
    return KeyNotFound(f"the store {url} has no object {key!r}")
