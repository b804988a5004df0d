"""Runs programs that a person watches: they have this process's terminal, or get fixed input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gofer.errors import GoferError, Interrupted


def attend(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, told: str | None = None
) -> int:
    """Run the program to its end and return its status. Blocking. Its output goes to stderr, with gofer's
    messages.

    Its input is the terminal, or the text `told`. Raises GoferError when the program cannot be started, and
    Interrupted after `timeout_s`, when the program has been killed.
    """
    import subprocess
    import sys

    # Otherwise gofer's earlier messages could appear after those of the program.
    sys.stderr.flush()
    try:
        done = subprocess.run(
            list(argv),
            input=None if told is None else told.encode(),
            stdout=sys.stderr.fileno(),
            env=env,
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise GoferError(
            f"cannot start `{argv[0]}`: {(error.strerror or str(error)).lower()}",
            hint=f"check that it is installed: `command -v {argv[0]}`",
        ) from error
    except subprocess.TimeoutExpired:
        raise Interrupted(f"`{argv[0]}` did not end within {timeout_s:g} s") from None
    return done.returncode
