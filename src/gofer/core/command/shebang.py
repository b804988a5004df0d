"""Why the kernel could not start a file as a program, and how a shell would start it."""

from __future__ import annotations

import errno
import os

_SHELL = "/bin/sh"
_LOOK_BYTES = 256


def shell_argv(path: str, argv: list[str]) -> list[str] | None:
    """The command with which a shell starts a file that names no interpreter: the shell itself. None when the
    file is not text or names an interpreter.
    """
    head = _head(path)
    return None if b"\0" in head or head.startswith(b"#!") else [_SHELL, path, *argv[1:]]


def explain(path: str, number: int | None) -> str:
    """A phrase that says why a file could not be started; `number` is the errno."""
    words = os.strerror(number or 0)
    head = _head(path)
    if number not in (errno.ENOENT, errno.ENOTDIR, errno.ENOEXEC) or not head.startswith(b"#!"):
        return words
    first = head.splitlines()[0] if b"\n" in head else head
    line = first.decode("utf-8", "replace")
    if head.partition(b"\n")[0].endswith(b"\r"):
        cure = f"sed -i 's/\\r$//' {os.path.basename(path)}"
        return f"its first line `{line}` has a Windows line end (remove them with `{cure}`)"
    interpreter = line[2:].split()[:1]
    return f"its interpreter `{interpreter[0]}` does not exist" if interpreter else words


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LOOK_BYTES)
    except OSError:
        return b""
