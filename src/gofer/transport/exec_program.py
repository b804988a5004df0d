"""Replaces this process by another program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from gofer.errors import GoferError


def become(argv: Sequence[str]) -> NoReturn:
    """Replace this process by the program, which gets the terminal; its exit status becomes ours.

    Call it when nothing is left to close. Raises GoferError when the program cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        raise GoferError(
            f"cannot run `{argv[0]}`: {(error.strerror or str(error)).lower()}",
            hint=f"check that `{argv[0]}` is installed and in a folder of `PATH`",
        ) from error
