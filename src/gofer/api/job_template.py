"""`gofer.job`: the options of a job, for the commands and functions that are submitted with them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast, overload

import msgspec

from gofer.api.job_options import JobOptions, Word, command_words, to_flags, with_options
from gofer.api.project import FolderPath, OpenProject
from gofer.api.run import Run
from gofer.config.jobs import JobFlags
from gofer.errors import UsageError
from gofer.model.bounds import MOST_ROWS
from gofer.ops.functions.archive import (
    Arguments,
    CodeSource,
    PackedFunction,
    name_of,
    pack_call,
    pack_calls,
)
from gofer.ops.session import Session
from gofer.ops.submission.submit import SubmitRequest
from gofer.ops.submission.submit import submit as submit_run

P = ParamSpec("P")
R = TypeVar("R")
Values = Mapping[str, Sequence[object]]
After = Run | str | Sequence[Run | str]

_OWN = ("target", "folder", "code", "after", "each")


class FunctionRun(Run, Generic[R]):
    """The run of a function that returns an R, or with `map` a group of such runs."""

    def result(self, timeout_s: float | None = None) -> R:
        return cast(R, super().result(timeout_s))

    result.__doc__ = Run.result.__doc__


class JobTemplate:
    """The options of a job. Made by `gofer.job`; may be used for many submissions, from any thread."""

    def __init__(
        self, flags: JobFlags, target: str | None, folder: FolderPath | None, code: bool | str, after: After
    ) -> None:
        self._folder = folder
        self._request = SubmitRequest(
            flags=flags,
            target=target,
            code=code is not False,
            stored_code=code if isinstance(code, str) else None,
            after=_references(after),
        )

    @overload
    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> FunctionRun[R]: ...

    @overload
    def submit(self, command: Sequence[Word], /, *, each: Values | None = None) -> Run: ...

    def submit(self, command: Any, /, *args: Any, **kwargs: Any) -> Run:
        """Run a command, or call `function(*args, **kwargs)`, on the target, and return at once."""
        if callable(command):
            return self._submit_function(command, Arguments(args, kwargs))
        return self._submit_command(command, *args, **kwargs)

    def map(self, function: Callable[..., R], /, *iterables: Iterable[Any]) -> FunctionRun[R]:
        """Call a function for each item, or for the items of several iterables side by side, as an array of
        runs; its `results()` are in the order of the items. Ends with the shortest iterable.

        UsageError for no item, and for more than 100,000.
        """
        calls = [Arguments(items) for items in itertools.islice(zip(*iterables, strict=False), MOST_ROWS + 1)]
        if not 0 < len(calls) <= MOST_ROWS:
            what = "is no item" if not calls else f"are more than {MOST_ROWS:,} items"
            raise UsageError(f"there {what} to call `{name_of(function)}` for")
        with OpenProject(self._folder) as session:
            return self._start(session, pack_calls(function, calls, _source(session)))

    def _submit_function(self, function: Callable[..., R], call: Arguments) -> FunctionRun[R]:
        _check_keywords(function, call.kwargs)
        with OpenProject(self._folder) as session:
            return self._start(session, pack_call(function, call, _source(session)))

    def _start(self, session: Session, packed: PackedFunction) -> FunctionRun[Any]:
        request = msgspec.structs.replace(self._request, function=packed)
        return FunctionRun(submit_run(session, request).id, folder=self._folder)

    def _submit_command(self, command: Sequence[Word], *, each: Values | None = None) -> Run:
        with OpenProject(self._folder) as session:
            request = msgspec.structs.replace(
                self._request,
                command=command_words(command),
                columns={name: tuple(map(str, values)) for name, values in (each or {}).items()},
            )
            return Run(submit_run(session, request).id, folder=self._folder)


@with_options
def job(
    *,
    target: str | None = None,
    folder: FolderPath | None = None,
    code: bool | str = True,
    after: After = (),
    **options: Unpack[JobOptions],
) -> JobTemplate:
    """The options of a job: `gofer.job(target="lab", gpus=8).submit(train, 0.1, seed=3)`.

    `options` are those of the job, see JobOptions; the others are as for `gofer.submit`. Nothing is submitted
    yet.
    """
    with OpenProject(folder):  # for a short traceback
        return JobTemplate(to_flags(options), target, folder, code, after)


def check_no_options(function: Callable[..., object], given: Mapping[str, object]) -> None:
    """UsageError for a keyword that may be meant for the job as well as for a function that takes any
    keyword; TypeError for one that only the job has.
    """
    _check_keywords(function, given)
    for name in _unnamed_options(function, given):
        raise UsageError(
            f"`{name}` is an option of the job, and all keywords here are those of the function",
            hint=f"{_as_option(function, name, given[name])}, or for the function "
            f"functools.partial({name_of(function)}, {name}={given[name]!r})",
        )


def _check_keywords(function: Callable[..., object], given: Mapping[str, object]) -> None:
    """TypeError for an option of the job that the function does not take, with the line to write instead."""
    if inspect.Parameter.VAR_KEYWORD in _parameters(function).values():
        return
    for name in _unnamed_options(function, given):
        raise TypeError(
            f"`{name_of(function)}` takes no keyword `{name}`; as an option of the job it is "
            f"{_as_option(function, name, given[name])}"
        )


def _unnamed_options(function: Callable[..., object], given: Mapping[str, object]) -> list[str]:
    """The keywords that are options of a job, and not the name of a parameter of the function."""
    options = {*_OWN, *JobOptions.__annotations__}
    return [name for name in given if name in options and name not in _parameters(function)]


def _as_option(function: Callable[..., object], name: str, value: object) -> str:
    return f"gofer.job({name}={value!r}).submit({name_of(function)}, …)"


def _parameters(function: Callable[..., object]) -> dict[str, object]:
    """The kinds of the parameters by name. A function that does not tell them may take any keyword."""
    try:
        found = inspect.signature(function).parameters
    except ValueError:
        return {"kwargs": inspect.Parameter.VAR_KEYWORD}
    return {name: one.kind for name, one in found.items()}


def _source(session: Session) -> CodeSource:
    return CodeSource(session.folder, session.settings.code_folder.path)


def _references(runs: After) -> tuple[str, ...]:
    several = [runs] if isinstance(runs, (Run, str)) else runs
    return tuple(one.id if isinstance(one, Run) else one for one in several)
