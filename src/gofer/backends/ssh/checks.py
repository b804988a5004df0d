"""What commonly fails with ssh on this machine: one check for each thing, with the command that mends it.

The checks connect to no machine and change nothing; those of the agent and of keys start OpenSSH's programs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gofer.backends.ssh.options import SshOptions
from gofer.backends.ssh_client import check_config, check_key, check_program, find_key
from gofer.config.paths import home_folder
from gofer.errors import GoferError
from gofer.model.checks import Check, Status
from gofer.text import quote_word
from gofer.transport.process import Finished, run

if TYPE_CHECKING:
    from gofer.backends.kind import CheckContext
    from gofer.config.targets import Target

_PATIENCE_S = 10.0
_NO_KEYS, _NO_AGENT = 1, 2  # exit statuses of `ssh-add -l`
# ssh shows a list of paths without quotes, and a path may have blanks.
_BETWEEN_PATHS = re.compile(r" (?=[/~])")
_START_AGENT = 'eval "$(ssh-agent)"'


def ssh_checks(targets: Sequence[Target], context: CheckContext) -> Iterator[Check]:
    """The checks of ssh, then those of the machines of the targets."""
    program = check_program(context.environ)
    yield program
    folder = home_folder(context.environ) / ".ssh"
    yield check_config(folder / "config")
    yield check_key(folder)
    if program.status != Status.OK:
        return
    try:
        yield _agent(context.environ, find_key(folder))
        for target in targets:
            if isinstance(target.options, SshOptions):
                for host in target.options.hosts:
                    yield _known(context.environ, target.name, host)
    except GoferError as error:
        yield Check("ssh programs", Status.WARN, error.message, error.hint)


def _run(environ: Mapping[str, str], *argv: str) -> Finished:
    return run(argv, timeout_s=_PATIENCE_S, env={**environ, "LC_ALL": "C"})


def _agent(environ: Mapping[str, str], key: Path | None) -> Check:
    """Check the agent, which a key with a passphrase needs: gofer's connections never ask for one."""
    status = _run(environ, "ssh-add", "-l").status if environ.get("SSH_AUTH_SOCK") else _NO_AGENT
    if status == 0:
        return Check("ssh agent", Status.OK, "has keys")
    what = "the agent has no key" if status == _NO_KEYS else "no agent answers"
    if key is None or _run(environ, "ssh-keygen", "-y", "-P", "", "-f", str(key)).status == 0:
        return Check("ssh agent", Status.OK, f"{what}; none is needed for a key without a passphrase")
    add = f"`ssh-add {quote_word(str(key))}`"
    mend = add if status == _NO_KEYS else f"`{_START_AGENT}`, then {add}"
    return Check("ssh agent", Status.WARN, f"{what}, and {key} has a passphrase", mend)


def _known(environ: Mapping[str, str], target: str, host: str) -> Check:
    """Check that ssh knows the key of a machine: gofer's connections never ask whether to trust one."""
    name = f"target {target} {host}"
    asked = _run(environ, "ssh", "-G", host)
    settings = dict(line.partition(" ")[::2] for line in asked.stdout.decode(errors="replace").splitlines())
    if asked.status != 0:
        complaint = asked.stderr.decode(errors="replace").strip().splitlines()
        detail = complaint[-1] if complaint else f"ssh exited with {asked.status}"
        return Check(name, Status.FAIL, detail, f"`ssh -G {quote_word(host)}` shows its settings")
    port, address = settings.get("port", "22"), settings.get("hostkeyalias") or settings.get("hostname", host)
    if settings.get("hostkeyalias") is None and port != "22":
        address = f"[{address}]:{port}"
    home = str(home_folder(environ))
    files = f"{settings.get('userknownhostsfile', '')} {settings.get('globalknownhostsfile', '')}"
    for file in _BETWEEN_PATHS.split(files):
        path = home + file[1:] if file.startswith("~/") else file
        if os.path.isfile(path) and _run(environ, "ssh-keygen", "-F", address, "-f", path).status == 0:
            return Check(name, Status.OK, f"its key is in {path}")
    is_lax = settings.get("stricthostkeychecking") in ("no", "off", "false", "accept-new")
    words = f"ssh does not know the key of {address}"
    if is_lax:
        return Check(name, Status.OK, f"{words}, and its settings accept it at the first connection")
    mend = f"`ssh {quote_word(host)} true` shows the key and asks; compare it before you type `yes`"
    return Check(name, Status.WARN, words, mend)
