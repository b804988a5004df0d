"""Keeps tokens between commands: one small file for each, readable only by its owner.

Files that another user could have written or read, and damaged files, are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from contextlib import suppress
from typing import Any, NamedTuple

from gofer.core import files, private_folder
from gofer.core.json_text import parse_json

# A token is renewed this long before its end, so that a running request does not outlive it.
MARGIN_S = 300.0


class Token(NamedTuple):
    """A token for a service, and when it expires (seconds since the epoch). Its repr hides the value."""

    value: str
    expires_at: float

    def __repr__(self) -> str:
        return f"Token(***, {self.expires_at:.0f})"


class TokenInfo(NamedTuple):
    """What is known of a kept token, without its value."""

    who: str
    scope: str
    expires_at: float


class ExpiredTokenFile(NamedTuple):
    """A file that can be removed, and since when it has been useless."""

    name: str
    size: int
    at: float
    why: str


class TokenFiles:
    """The tokens by owner and scope. Any thread or process may use them; the last writer wins."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "tokens")

    def read(self, who: str, scope: str) -> Token | None:
        """The token; None when there is none that stays valid for five minutes."""
        found = _read(self._path(who, scope))
        # The name of the file is a shortened hash, so the contents decide.
        if found is None or (found["who"], found["scope"]) != (who, scope):
            return None
        token = Token(str(found["token"]), float(found["expires_at"]))
        return token if token.expires_at - time.time() > MARGIN_S else None

    def write(self, who: str, scope: str, token: Token) -> None:
        """Keep the token.

        A folder that cannot be written is ignored: each command then fetches its own token.
        """
        held = {"who": who, "scope": scope, "token": token.value, "expires_at": token.expires_at}
        try:
            private_folder.make_missing(self._folder)
            files.write_whole(self._path(who, scope), json.dumps(held).encode(), mode=0o600)
        except OSError:
            pass

    def drop(self, who: str, scope: str) -> None:
        _remove(self._path(who, scope))

    def drop_all(self, who_begins: str = "") -> int:
        """Remove the tokens of owners whose name begins so; return how many there were."""
        dropped = 0
        for path in self._paths():
            found = _read(path)
            if found is None or str(found["who"]).startswith(who_begins):
                _remove(path)
                dropped += 1
        return dropped

    def held(self) -> list[TokenInfo]:
        """All kept tokens that have not expired, the one that expires last at the end."""
        found = [kept for path in self._paths() if (kept := _read(path))]
        rows = [TokenInfo(str(kept["who"]), str(kept["scope"]), float(kept["expires_at"])) for kept in found]
        return sorted((row for row in rows if row.expires_at > time.time()), key=lambda row: row.expires_at)

    def stale(self, profiles: str) -> list[ExpiredTokenFile]:
        """Files that have expired or cannot be read, and those of profiles that no longer exist in that
        folder.
        """
        return [entry for path in self._paths() if (entry := _stale(path, profiles))]

    def drop_stale(self, names: list[str], profiles: str) -> None:
        """Remove these files of `stale`. A file that has been written again meanwhile stays."""
        for entry in self.stale(profiles):
            if entry.name in names:
                _remove(os.path.join(self._folder, entry.name))

    def _paths(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return [os.path.join(self._folder, name) for name in names if name.endswith(".json")]

    def _path(self, who: str, scope: str) -> str:
        name = hashlib.sha256(f"{who}\0{scope}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
        return os.path.join(self._folder, f"{name}.json")


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.getuid() or stat.S_IMODE(facts.st_mode) & 0o077:
                return None
            found = parse_json(file.read())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or not {"who", "scope", "token", "expires_at"} <= found.keys():
        return None
    return found if isinstance(found["expires_at"], int | float) else None


def _stale(path: str, profiles: str) -> ExpiredTokenFile | None:
    found = _read(path)
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    if found is None:
        return ExpiredTokenFile(
            os.path.basename(path), facts.st_size, facts.st_mtime, "it is not a valid token file"
        )
    at = float(found["expires_at"])
    if at < time.time():
        return ExpiredTokenFile(os.path.basename(path), facts.st_size, at, "it has expired")
    folder = str(found["who"]).partition("\0")[0].partition(" in ")[2]
    if folder.startswith(os.path.join(profiles, "")) and not os.path.isdir(folder):
        return ExpiredTokenFile(os.path.basename(path), facts.st_size, facts.st_mtime, "its profile is gone")
    return None


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
