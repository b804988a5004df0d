"""Print errors for people: `error:` and `hint:` lines on stderr, and the exit status."""

from __future__ import annotations

import errno
import sys
from contextlib import suppress

import click

from gofer.cli.output.screen import printable
from gofer.cli.output.theme import themed
from gofer.config.redact import mask
from gofer.errors import GoferError, UsageError
from gofer.text import did_you_mean

_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def explain(error: Exception, *, debug: bool) -> int:
    """Write the lines for `error` to stderr, after its traceback with `debug`; the exit status."""
    if debug:
        import traceback

        sys.stderr.write(_masked("".join(traceback.format_exception(error))))
    known = error if isinstance(error, GoferError) else _translate(error)
    with suppress(OSError):  # the exit status shows the failure anyway
        print(themed(f"error: {_lines(known.message)}", sys.stderr), file=sys.stderr)
        if known.hint:
            print(themed(f"hint: {_lines(known.hint)}", sys.stderr), file=sys.stderr)
    return known.exit_status


def _translate(error: Exception) -> GoferError:
    if isinstance(error, click.Abort):
        return _Stopped("stopped before the answer was given")
    if isinstance(error, click.ClickException):
        return _from_click(error)
    if isinstance(error, OSError):
        return _from_system(error)
    return GoferError(
        f"unexpected {type(error).__name__}: {error}",
        hint="`gofer --debug …` shows where it happened; please report it",
    )


class _Stopped(GoferError):
    exit_status = 130


def _from_click(error: click.ClickException) -> GoferError:
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "gofer"
    hint = f"`{path} --help` shows how it is used"
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error, path, hint)
    message = error.format_message().rstrip().rstrip(".")
    return UsageError(message[:1].lower() + message[1:], hint=hint)


def _no_such_option(error: click.NoSuchOption, path: str, hint: str) -> UsageError:
    if error.option_name == "--from":
        return UsageError(
            f"`{path}` moves no data between targets, so `-f NAME` before the verb has no effect",
            hint=f"to follow a log, write `-f` after the verb: `{path} -f …`",
        )
    known = [name for param in error.ctx.command.params for name in param.opts] if error.ctx else []
    near = did_you_mean(error.option_name, known)
    return UsageError(f"`{path}` has no option `{error.option_name}`", hint=near or hint)


def _from_system(error: OSError) -> GoferError:
    if error.errno == errno.ENOENT and error.filename is None:
        return GoferError("the current folder no longer exists", hint="`cd` to an existing folder")
    where = f": {error.filename}" if error.filename is not None else ""
    message = f"{(error.strerror or str(error)).lower()}{where}"
    if error.errno in _FULL:
        return GoferError(message, hint="free some space on that disk, then run the same command again")
    if error.errno in _NOT_ALLOWED:
        return GoferError(
            message, hint="set `GOFER_HOME` to a folder you may write, or correct the permissions"
        )
    return GoferError(message, hint="`gofer --debug …` shows where it happened")


def _lines(text: str) -> str:
    """A message with secrets masked and control characters removed. Line breaks of lists are kept."""
    return "\n".join(printable(line) for line in _masked(text).split("\n"))


def _masked(text: str) -> str:
    """Mask secrets. If the module for secrets was never loaded, only signed URLs that a person typed must be
    masked.
    """
    if "gofer.config.redact" not in sys.modules and "sig" not in text.lower():
        return text
    return mask(text)
