"""The console script: words in, exit status out, and the one place where errors become lines on stderr."""

from __future__ import annotations

import gc
import io
import os
import sys

# Collections that start-up would not profit from cost 3 ms; what runs for long is still collected.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000
_PIPE_CLOSED = 141
_INTERRUPTED = 130


def entry() -> None:
    """Run the command line of this process and leave with its exit status."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Paths and commands may hold bytes that are no UTF-8: they leave as they came.
        utf8 = sys.stdout.encoding.lower() in ("utf-8", "utf8")
        sys.stdout.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")
    _guard_terminals()
    status = main(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        status = _cannot_write(error, status)
    _drop_unwritten_talk()
    gc.freeze()  # the interpreter need not search for cycles in what the system is about to take back
    sys.exit(status)


def main(argv: list[str]) -> int:
    """Run one command line; every failure ends here as lines on stderr and an exit status."""
    # What the one command line shares; the traceback of an error is shown when it holds `debug`.
    notes: dict[str, object] = {}
    try:
        return _run(argv, notes)
    except BrokenPipeError as error:
        return _cannot_write(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        from gofer.cli.output.done import noted
        from gofer.cli.output.failure import explain

        if noted() and isinstance(error, OSError) and error.filename is None:
            return _cannot_write(error)
        status = explain(error, debug="debug" in notes or os.environ.get("GOFER_DEBUG", "0") not in ("", "0"))
        if found := noted():
            from gofer.cli.output.screen import say

            say(f"{found.words}; repeating the command would do it again")
        return status


def _guard_terminals() -> None:
    """What others wrote and gofer quotes must not be obeyed by a terminal, also in JSON and in tracebacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            from gofer.cli.output.terminal_text import terminal_stream

            setattr(sys, name, terminal_stream(stream))


def _open_closed_streams() -> None:
    """A stream that the caller closed (`>&-`) is /dev/null: nothing else may take its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _drop_unwritten_talk() -> None:
    """A stderr that cannot be written is no failure; Python would end with status 120 for it."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _run(argv: list[str], notes: dict[str, object]) -> int:
    if argv in (["version"], ["--version"]):
        from gofer.cli.commands.settings.version import show

        return show()
    import gofer.cli.quick_click  # noqa: F401  (before anything that imports click)

    # isort: split
    import click

    from gofer.cli.lazy import root
    from gofer.cli.option_order import rearrange, remark

    if "_GOFER_COMPLETE" in os.environ:
        from gofer.cli.completion_words import complete

        return complete(os.environ)
    group = root()
    words = rearrange(argv)
    said = remark(argv)
    if said:
        from gofer.cli.output.screen import say

        say(said)
    try:
        with group.make_context("gofer", words, obj=notes) as context:
            status = group.invoke(context)
    except click.exceptions.Exit as asked:
        return asked.exit_code
    return status if isinstance(status, int) else 0


def _cannot_write(error: OSError, status: int | None = None) -> int:
    """A reader that left is nothing to talk about, a full disk is; and nothing more is written at exit.

    A command that has had its effect says what it did, and exits with `status`, if it came to its end: one
    that is repeated for a failure would do it twice.
    """
    from gofer.cli.output.done import give_up_stdout, noted

    give_up_stdout(error)
    if found := noted():
        return found.status if status is None else status
    if isinstance(error, BrokenPipeError):
        return _PIPE_CLOSED
    from gofer.cli.output.failure import explain

    return explain(error, debug=False)
