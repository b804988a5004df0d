"""Give this process up for another program."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from gofer.errors import GoferError


def become(argv: Sequence[str]) -> NoReturn:
    """Run the program in place of this one: it has the terminal, and its exit status is ours.

    Call it when nothing is left to close. GoferError when there is no such program.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        raise GoferError(
            f"cannot run `{argv[0]}`: {(error.strerror or str(error)).lower()}",
            hint=f"is `{argv[0]}` installed, and in a folder of `PATH`?",
        ) from error
