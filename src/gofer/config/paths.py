"""Where gofer keeps its own files on this machine. Reading a path creates nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gofer.errors import UsageError


class Paths(NamedTuple):
    """One machine's and one user's places; all absolute.

    `queue_home` belongs to this host alone, so that two machines sharing a home never share a queue.
    """

    config_file: Path
    secrets_file: Path
    ledger_file: Path
    queue_home: Path
    cache_dir: Path
    store_dir: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Paths:
        """The XDG folders, or everything under `GOFER_HOME` when that is set; UsageError without a home."""
        own = environ.get("GOFER_HOME")
        if own:
            root = Path(os.path.abspath(os.path.expanduser(own)))
            return cls._placed(config=root, state=root, cache=root / "cache", data=root)
        home = home_folder(environ)
        return cls._placed(
            config=_xdg(environ, "XDG_CONFIG_HOME", home / ".config") / "gofer",
            state=_xdg(environ, "XDG_STATE_HOME", home / ".local" / "state") / "gofer",
            cache=_xdg(environ, "XDG_CACHE_HOME", home / ".cache") / "gofer",
            data=_xdg(environ, "XDG_DATA_HOME", home / ".local" / "share") / "gofer",
        )

    @classmethod
    def _placed(cls, *, config: Path, state: Path, cache: Path, data: Path) -> Paths:
        return cls(
            config_file=config / "config.yaml",
            secrets_file=config / "secrets.json",
            ledger_file=state / "ledger.db",
            queue_home=state / "engine" / (os.uname().nodename or "localhost"),
            cache_dir=cache,
            store_dir=data / "store",
        )


def home_folder(environ: Mapping[str, str]) -> Path:
    """The user's home by `HOME`, else by the user database; UsageError when neither knows."""
    home = environ.get("HOME")
    if home and os.path.isabs(home):
        return Path(home)
    import pwd  # only where HOME is missing, as in some containers and cron jobs

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        raise UsageError(
            "no home folder: `HOME` is not set and this user is not in the user database",
            hint="set `GOFER_HOME` to a folder gofer may use",
        ) from None


def _xdg(environ: Mapping[str, str], name: str, default: Path) -> Path:
    """The folder a variable names; a relative one is ignored, as the XDG specification asks."""
    value = environ.get(name, "")
    return Path(value) if os.path.isabs(value) else default
