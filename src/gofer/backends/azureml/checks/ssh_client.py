"""Check what shells in runs and tunnels need on this machine: ssh, its configuration, a key."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.backends.azureml.checks.target_resources import options_of
from gofer.backends.azureml.shell import public_key
from gofer.config.paths import home_folder
from gofer.errors import GoferError
from gofer.model.checks import Check, Status
from gofer.text import quote_word

if TYPE_CHECKING:
    from gofer.config.targets import Target

_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_MAKE_KEY = "`ssh-keygen -t ed25519` makes one"


def shell_checks(environ: Mapping[str, str], targets: Sequence[Target]) -> Iterator[Check]:
    """Check the machine, then the targets that offer shells."""
    there = shutil.which("ssh", path=environ.get("PATH", os.defpath))
    if there is None:
        yield Check("ssh", Status.WARN, "not on the PATH; `gofer ssh` needs it", "install OpenSSH's client")
    else:
        yield Check("ssh", Status.OK, there)
    folder = home_folder(environ) / ".ssh"
    yield _config(folder / "config")
    yield _key(folder)
    for target in targets:
        yield from _key_of(environ, target)


def _config(path: Path) -> Check:
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


def _key(folder: Path) -> Check:
    """Check for a key. Runs need none, but shells and tunnels do."""
    found = next((folder / name for name in _KEYS if (folder / name).is_file()), None)
    if found is None:
        words = f"none in {folder}; only shells and tunnels need one: {_MAKE_KEY}"
        return Check("ssh key", Status.OK, words)
    if found.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        words = f"others may read {found}, so ssh does not use it"
        return Check("ssh key", Status.FAIL, words, f"`chmod 600 {quote_word(str(found))}`")
    return Check("ssh key", Status.OK, str(found))


def _key_of(environ: Mapping[str, str], target: Target) -> Iterator[Check]:
    """Check the key of a target, if the target offers shells in its runs."""
    if not options_of(target).interactive:
        return
    what = f"target {target.name} ssh key"
    try:
        text = public_key(options_of(target).ssh_public_key, str(home_folder(environ)))
        yield Check(what, Status.OK, " ".join(text.split()[::2]))
    except GoferError as error:
        yield Check(what, Status.FAIL, error.message, error.hint)
