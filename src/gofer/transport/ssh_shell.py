"""The command line for a program on another machine that uses the user's own terminal or pipes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gofer.text import quote_command
from gofer.transport.ssh import Login, sockets_folder, ssh_argv


def shell_argv(login: Login, words: Sequence[str], *, terminal: bool) -> list[str]:
    """The `ssh` command that runs `words` there unchanged, over the shared connection; exits as they do."""
    program, _, *rest = ssh_argv(login.host, sockets_folder(os.environ))
    return [program, "-tt" if terminal else "-T", *rest, quote_command(words)]
