"""Which keys a store takes: relative POSIX paths that cannot leave the store."""

from __future__ import annotations

from gofer.errors import KeyNotFound, StoreError

_HINT = "a key is a relative path such as `runs/x/run.json`, without empty, `.` or `..` parts"


def check_key(key: str) -> str:
    """The key itself; StoreError when it could mean a file outside the store, or none at all.

    Bytes that are not UTF-8 may stand in it the way Python reads them from the file system (surrogates).
    """
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise StoreError(f"{key!a} is not a key: it has no form in bytes", hint=_HINT) from None
    if "\0" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise StoreError(f"{key!a} is not a key", hint=_HINT)
    return key


def check_prefix(prefix: str) -> str:
    """A key, or nothing for the whole store."""
    return check_key(prefix) if prefix else prefix


def no_such_key(url: str, key: str) -> KeyNotFound:
    """The error of every store for an object that is not there."""
    return KeyNotFound(f"the store {url} has no object {key!r}")
