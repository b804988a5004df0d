"""Starts programs that a person watches: they have this process's terminal, or are told what to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gofer.errors import GoferError, Interrupted


def attend(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, told: str | None = None
) -> int:
    """Run the program to its end and return its status; what it prints goes to stderr, since it is talk.

    Its input is the terminal, or `told` and then nothing. GoferError when it cannot be started, Interrupted
    when the time is up, after which it is gone.
    """
    import subprocess
    import sys

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
            hint=f"is it installed? try `command -v {argv[0]}`",
        ) from error
    except subprocess.TimeoutExpired:
        raise Interrupted(f"`{argv[0]}` did not end within {timeout_s:g} s") from None
    return done.returncode
