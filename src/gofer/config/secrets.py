"""The user's secrets: one JSON file that nobody else can read.

No message contains a value. Every method blocks. A lock lets one writer work at a time, also on machines that
share a home.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gofer.config.references import SECRET_NAME
from gofer.core import private_folder
from gofer.core.json_text import parse_json
from gofer.core.retry import backoff, retry
from gofer.errors import CredentialError, UnknownName, UsageError
from gofer.text import did_you_mean

LOCK_TIMEOUT_S = 10.0


class Secrets:
    """The secrets in the file at `path`, which need not exist."""

    def __init__(self, path: Path, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        self._path = path
        self._lock_timeout_s = lock_timeout_s

    def get(self, name: str) -> str:
        """The value; CredentialError when there is none, or when other users could read or replace the
        file.
        """
        _check_name(name)
        values = self._load()
        if name not in values:
            near = did_you_mean(name, values)
            hint = f"`gofer secret set {name}`"
            raise CredentialError(f"there is no secret `{name}`", hint=f"{near} or {hint}" if near else hint)
        return values[name]

    def names(self) -> list[str]:
        """The names, sorted; empty when no secret was ever set."""
        return sorted(self._load())

    def set(self, name: str, value: str) -> None:
        """Keep `value` under `name`, replacing what was there. On disk when this returns."""
        _check_name(name)
        if not value or "\0" in value:
            raise UsageError(f"the value of the secret `{name}` is {'empty' if not value else 'not text'}")
        self._change(lambda values: values.__setitem__(name, value))

    def remove(self, name: str) -> None:
        """Forget `name`; UnknownName when it is not there."""
        _check_name(name)
        if name not in self._load():
            near = did_you_mean(name, self._load())
            raise UnknownName(
                f"there is no secret `{name}`", hint=near or "`gofer secret list` shows their names"
            )
        self._change(lambda values: values.pop(name, None))

    def _change(self, change: Callable[[dict[str, str]], object]) -> None:
        try:
            _make_private(self._path.parent)
            with _locked(self._path.with_name(self._path.name + ".lock"), self._lock_timeout_s):
                values = self._load()
                change(values)
                _write(self._path, json.dumps(values, indent=1, sort_keys=True).encode() + b"\n")
        except OSError as error:
            raise CredentialError(f"cannot write `{self._path}`: {error.strerror}") from None

    def _load(self) -> dict[str, str]:
        try:
            with open(self._path, "rb") as file:
                _check_private(self._path, os.fstat(file.fileno()))
                data = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CredentialError(f"cannot read `{self._path}`: {error.strerror}") from None
        try:
            values = parse_json(data)
        except ValueError:
            values = None
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise CredentialError(
                f"`{self._path}` is damaged",
                hint=f"move it away and set the secrets again: `mv {self._path} {self._path}.old`",
            )
        return values


def _check_name(name: str) -> None:
    if not SECRET_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a secret", hint="use letters, digits, `_`, `.` and `-`"
        )


def _check_private(path: Path, status: os.stat_result) -> None:
    if status.st_mode & 0o077:
        raise CredentialError(
            f"others can read or write `{path}`, so it is not used", hint=f"`chmod 600 {path}`"
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise CredentialError(f"`{path}` belongs to another user, so it is not used")


def _make_private(folder: Path) -> None:
    private_folder.make_missing(folder)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


@contextmanager
def _locked(path: Path, timeout_s: float) -> Iterator[None]:
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            retry(
                lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB),
                errors=BlockingIOError,
                pause_s=backoff(0.02, factor=1.0),
                patience_s=timeout_s,
            )
        except BlockingIOError:
            raise CredentialError(f"another gofer has held `{path}` for {timeout_s:g} s") from None
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    """Replace the file atomically: a reader finds either the old file or the new one, also after a crash."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
