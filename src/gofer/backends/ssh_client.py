"""Check what gofer needs of ssh on this machine: the program, its configuration, a key."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

from gofer.model.checks import Check, Status
from gofer.text import quote_word

_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_MAKE_KEY = "`ssh-keygen -t ed25519` makes one"


def check_program(environ: Mapping[str, str]) -> Check:
    """Check for the program `ssh`."""
    there = shutil.which("ssh", path=environ.get("PATH", os.defpath))
    if there is None:
        return Check("ssh", Status.WARN, "not on the PATH; `gofer ssh` needs it", "install OpenSSH's client")
    return Check("ssh", Status.OK, there)


def find_key(folder: Path) -> Path | None:
    """The key in `~/.ssh` that ssh tries first."""
    return next((folder / name for name in _KEYS if (folder / name).is_file()), None)


def check_config(path: Path) -> Check:
    """Check the configuration of ssh. ssh refuses to start when others may write to it."""
    try:
        found = path.stat()
    except OSError:
        return Check("ssh config", Status.OK, f"{path} does not exist; none is needed")
    name = quote_word(str(path))
    if found.st_uid not in (0, os.getuid()):
        words = f"{path} belongs to somebody else, so ssh refuses to start"
        return Check("ssh config", Status.FAIL, words, f"`sudo chown {os.getuid()} {name}`")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        words = f"others may write to {path}, so ssh refuses to start"
        return Check("ssh config", Status.FAIL, words, f"`chmod 600 {name}`")
    return Check("ssh config", Status.OK, str(path))


def check_key(folder: Path) -> Check:
    """Check for a key. Runs need none, but shells and tunnels do."""
    found = find_key(folder)
    if found is None:
        words = f"none in {folder}; only shells and tunnels need one: {_MAKE_KEY}"
        return Check("ssh key", Status.OK, words)
    if found.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        words = f"others may read {found}, so ssh does not use it"
        return Check("ssh key", Status.FAIL, words, f"`chmod 600 {quote_word(str(found))}`")
    return Check("ssh key", Status.OK, str(found))
