"""References in a value: `${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}` and `${secret:NAME}`.

`$${` means a plain `${`. Anything else, such as a shell's `${HOME}`, is ordinary text. A reference is looked
up only when its value is needed, so that a missing variable affects only what needs it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gofer.errors import ConfigError

MOST_FILE_BYTES = 1 << 20
_TOKEN = re.compile(r"\$\$\{|\$\{(env|file|secret):([^}]*)(\}?)")
# Slips of the pen that would otherwise travel to the node as text.
_NEAR = re.compile(r"(?<!\$)\$\{(envs|environ|environment|files|secrets|Env|ENV|File|FILE|Secret|SECRET):")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_WORD = re.compile(r"key|token|secret|passw|credential|(^|_)sas(_|$)", re.IGNORECASE)
SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class Reference(NamedTuple):
    """One reference: its kind, and the name or path it holds."""

    kind: str
    name: str
    default: str | None = None

    def __str__(self) -> str:
        return f"${{{self.kind}:{self.name}}}"


def references(text: str) -> Iterator[Reference]:
    """Every reference in `text`, in order; ConfigError for a malformed reference."""
    near = _NEAR.search(text)
    if near:
        right = next(kind for kind in ("env", "file", "secret") if near[1].lower().startswith(kind))
        raise ConfigError(f"`${{{near[1]}:…}}` is not a reference", hint=f"write `${{{right}:…}}`")
    for match in _TOKEN.finditer(text):
        if match[1]:
            yield _parsed(match)


def holds_reference(text: str) -> bool:
    """Whether `text` would read differently once resolved."""
    return _TOKEN.search(text) is not None


def is_secret(variable: str, text: str) -> bool:
    """Whether a variable of a job has a value that no log may show.

    It refers to a secret or a file, or to another variable and one of the two names says that it is secret.
    `-e NAME` refers to a variable of any name, and most of these hold nothing secret.
    """
    found = list(references(text))
    words = [variable, *(one.name for one in found)]
    return any(one.kind != "env" for one in found) or (
        bool(found) and any(_SECRET_WORD.search(word) for word in words)
    )


def _parsed(match: re.Match[str]) -> Reference:
    kind, body, closed = match[1], match[2], match[3]
    name, separator, default = body.partition(":-") if kind == "env" else (body, "", "")
    right = {"env": _VARIABLE.fullmatch, "secret": SECRET_NAME.fullmatch}.get(kind, bool)(name)
    if not closed or not right:
        raise ConfigError(
            f"`{match[0]}` is not a whole reference",
            hint="write `${env:NAME}`, `${env:NAME:-default}`, `${file:PATH}` or `${secret:NAME}`",
        )
    return Reference(kind, name, default if separator else None)


class Resolver:
    """Looks references up: variables in `environ`, relative paths in `folder`, secrets by `secret`.

    `found` is called with the value of every resolved reference, so that messages can mask it.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        folder: Path,
        secret: Callable[[str], str],
        found: Callable[[Reference, str], None] | None = None,
    ) -> None:
        self._environ = environ
        self._folder = folder
        self._secret = secret
        self._found = found

    def resolve(self, text: str) -> str:
        """`text` with each reference replaced; ConfigError or CredentialError for a value that does not
        exist.
        """
        for _ in references(text):
            pass  # a slip anywhere is reported before anything is looked up
        return _TOKEN.sub(lambda match: self._value(_parsed(match)) if match[1] else "${", text)

    def _value(self, reference: Reference) -> str:
        if reference.kind == "env":
            value = self._variable(reference)
        elif reference.kind == "file":
            value = self._file(reference.name)
        else:
            value = self._secret(reference.name)
        if self._found:
            self._found(reference, value)
        return value

    def _variable(self, reference: Reference) -> str:
        value = self._environ.get(reference.name)
        if reference.default is not None:
            return value or reference.default
        if value is None:
            raise ConfigError(
                f"the environment variable `{reference.name}` is not set, and `{reference}` needs it",
                hint=f"set it, or write `${{env:{reference.name}:-default}}`",
            )
        return value

    def _file(self, name: str) -> str:
        path = self._folder / os.path.expanduser(name)
        try:
            with open(path, "rb") as file:
                data = file.read(MOST_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"cannot read `{path}` for `${{file:{name}}}`: {reason}") from None
        if len(data) > MOST_FILE_BYTES:
            raise ConfigError(
                f"`{path}` is too large for `${{file:{name}}}`: more than {MOST_FILE_BYTES >> 20} MiB"
            )
        try:
            # Editors end a file with a newline that is no part of a token.
            return data.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise ConfigError(f"`{path}`, read for `${{file:{name}}}`, is not UTF-8 text") from None
