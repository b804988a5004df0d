"""Commands as a person who may not write everywhere."""

from __future__ import annotations

import os

_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# Reading everything is left to it where the interpreter lies in the home of root.
_READS_ALL = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


def as_nobody(*, readable: bool = True) -> list[str]:
    """The words before a command that make it run as the user nobody. With `readable` it may read every file,
    and still write none of root's.
    """
    return [*_NOBODY, *(_READS_ALL if readable else ())]


def as_ordinary_user() -> list[str]:
    """As `as_nobody` when root runs the tests, else nothing: any other user is an ordinary one."""
    return as_nobody() if os.geteuid() == 0 else []
