"""`gofer.submit` and `gofer.map`: run a command or a function on a target."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from gofer.api.job_options import JobOptions, Word, with_options
from gofer.api.job_template import After, FunctionRun, Values, check_no_options, job
from gofer.api.project import FolderPath, OpenProject
from gofer.api.run import Run
from gofer.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


@overload
def submit(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> FunctionRun[R]: ...


@overload
def submit(
    command: Sequence[Word],
    *,
    target: str | None = None,
    folder: FolderPath | None = None,
    each: Values | None = None,
    code: bool | str = True,
    after: After = (),
    **options: Unpack[JobOptions],
) -> Run: ...


def submit(*words: Any, **keywords: Any) -> Run:
    """Run `command` on a target with the code of `folder` (default: the current one), and return at once.

    `each` makes an array: every combination of its values, `{name}` replaced in the command; the Run is then
    the group. `code` is False for no code, or `"STORE:PATH"` for code that lies in a store. The run starts
    when the runs `after` have succeeded; `"ID:any"` is for a run that has to end in any way. `options` are
    the options of the job, see JobOptions. UsageError for a command that is one text.

    `gofer.submit(function, *args, **kwargs)` calls a function instead, on the default target: all that
    follows belongs to the function, and `run.result()` is what it returns. Options of the job are given by
    `gofer.job(gpus=1).submit(function, *args, **kwargs)`.
    """
    with OpenProject(None):  # for a short traceback
        if not (words and callable(words[0])):
            return _submit_command(*words, **keywords)
        function, *args = words
        check_no_options(function, keywords)
        run: Run = job().submit(function, *args, **keywords)
        return run


@with_options
def _submit_command(
    command: Sequence[Word],
    *,
    target: str | None = None,
    folder: FolderPath | None = None,
    each: Values | None = None,
    code: bool | str = True,
    after: After = (),
    **options: Unpack[JobOptions],
) -> Run:
    template = job(target=target, folder=folder, code=code, after=after, **options)
    return template.submit(command, each=each)


submit.__signature__ = inspect.signature(_submit_command)  # type: ignore[attr-defined]


def map(function: Callable[..., R], /, *iterables: Iterable[Any], **options: Any) -> FunctionRun[R]:
    """Call a function for each item, or for the items of several iterables side by side, as an array of runs
    on the default target, and return at once: `gofer.map(train, [0.1, 0.01]).results()`.

    Ends with the shortest iterable. Options of the job are given by `gofer.job(gpus=1).map(…)`.
    """
    if options:
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        with OpenProject(None):
            raise UsageError(
                "`gofer.map` takes a function and its items", hint=f"gofer.job({given}).map(…) has options"
            )
    return job().map(function, *iterables)
