"""The console script: runs one command line, and prints errors on stderr. Its result is the exit status."""

from __future__ import annotations

import gc
import io
import os
import sys

# Fewer garbage collections at start-up save 3 ms; long-running commands are still collected.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000
_PIPE_CLOSED = 141
_INTERRUPTED = 130


def entry() -> None:
    """Run the command line of this process and leave with its exit status."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Paths and commands may hold bytes that are not UTF-8; they are printed unchanged.
        utf8 = sys.stdout.encoding.lower() in ("utf-8", "utf8")
        sys.stdout.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")
    _guard_terminals()
    status = main(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        status = _cannot_write(error, status)
    _drop_unwritten_talk()
    if status == _INTERRUPTED:
        # CPython notes an interrupt that arrives inside `eval`, which every NamedTuple uses, and `python -m`
        # then dies of SIGINT although the interrupt was handled. stdout and stderr are flushed already.
        os._exit(status)
    gc.freeze()  # the process is about to end, so skip the garbage collection of its objects
    sys.exit(status)


def main(argv: list[str]) -> int:
    """Run one command line; every failure ends here as lines on stderr and an exit status."""
    # Notes of the options for this function. With `debug`, an error is shown with its traceback.
    notes: dict[str, object] = {}
    try:
        return _run(argv, notes)
    except BrokenPipeError as error:
        return _cannot_write(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        from gofer.cli.output.done import last_done
        from gofer.cli.output.failure import explain

        # The command has had its effect, and only its output failed: an OSError of stdout has no file name.
        if last_done() and isinstance(error, OSError) and error.filename is None:
            return _cannot_write(error)
        status = explain(error, debug="debug" in notes or os.environ.get("GOFER_DEBUG", "0") not in ("", "0"))
        if found := last_done():
            from gofer.cli.output.screen import print_message

            print_message(f"{found.words}; repeating the command would do it again")
        return status


def _guard_terminals() -> None:
    """Filter control sequences on terminals, since gofer quotes text of others, even in JSON and
    tracebacks.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            from gofer.cli.output.terminal_text import terminal_stream

            setattr(sys, name, terminal_stream(stream))
            if name == "stderr":
                _show_activities()


def _show_activities() -> None:
    """Say on the terminal what a silent command waits for. The line is loaded when the first wait begins."""
    from gofer.transport.activity import activities

    class FirstWait:
        def activity_began(self) -> None:
            from gofer.cli.output.live_line import live_line

            activities.observer = live_line()
            if activities.observer is not None:
                activities.observer.activity_began()

        def activities_ended(self) -> None:
            pass

    activities.observer = FirstWait()


def _open_closed_streams() -> None:
    """Open /dev/null for a stream that the caller closed (`>&-`), so that no other file gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _drop_unwritten_talk() -> None:
    """Ignore a stderr that cannot be written: Python would otherwise exit with status 120."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _run(argv: list[str], notes: dict[str, object]) -> int:
    if argv in (["version"], ["--version"]):
        from gofer.cli.commands.settings.version import show

        return show()
    import click

    from gofer.cli.lazy import root
    from gofer.cli.option_order import rearrange, remark

    if "_GOFER_COMPLETE" in os.environ:
        from gofer.cli.completion import complete

        return complete(os.environ)
    group = root()
    words = rearrange(argv)
    said = remark(argv)
    if said:
        from gofer.cli.output.screen import print_message

        print_message(said)
    try:
        with group.make_context("gofer", words, obj=notes) as context:
            status = group.invoke(context)
    except click.exceptions.Exit as asked:
        return asked.exit_code
    return status if isinstance(status, int) else 0


def _cannot_write(error: OSError, status: int | None = None) -> int:
    """Handle a stdout that cannot be written. Only a full disk is reported, not a reader that has left.

    A command that has had its effect says what it did, and exits with `status` if it was complete: a script
    that repeats a failed command would otherwise do it twice.
    """
    from gofer.cli.output.done import give_up_stdout, last_done

    give_up_stdout(error)
    if found := last_done():
        return found.status if status is None else status
    if isinstance(error, BrokenPipeError):
        return _PIPE_CLOSED
    from gofer.cli.output.failure import explain

    return explain(error, debug=False)
