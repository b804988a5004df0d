"""The keywords of `gofer.submit` that describe a job, and the job flags that they become."""

from __future__ import annotations

import datetime
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from gofer.config.jobs import JobFlags
from gofer.errors import UsageError
from gofer.text import did_you_mean, parse_duration_s

Duration = str | float | datetime.timedelta
Word = str | os.PathLike[str] | int | float

_Function = TypeVar("_Function", bound=Callable[..., Any])


class JobOptions(TypedDict, total=False):
    """The options of `gofer submit`, with the names of `job:` in gofer.yaml. None means not given.

    `gpus` counts the whole run, `procs` and `memory` are per node, and `cpus` is per process. A duration is
    `"2h"`, seconds or a timedelta. Values of `env` and `tags` may be numbers.
    """

    name: str | None
    gpus: int | None
    nodes: int | None
    procs: int | None
    cpus: int | None
    memory: str | None
    gpu_type: str | None
    multi_process: bool | None
    launcher: str | None
    rank_variables: str | None
    env: Mapping[str, str | int | float] | None
    tags: Mapping[str, str | int | float] | None
    setup: str | None
    packages: str | None
    wheels: str | None
    time_limit: Duration | None
    time_limit_s: float | None
    grace: Duration | None
    grace_s: float | None
    retries: int | None
    retry_on: Sequence[str] | None
    priority: int | None
    outputs: Sequence[str] | None
    sync: Sequence[str] | None
    keep: str | None
    keep_group: str | None
    keep_most: str | None


_DURATIONS = ("time_limit", "grace")
_LISTS = ("retry_on", "outputs", "sync")
_MAPS = ("env", "tags")
_OTHER_NAMES = {"gpu": "gpus", "timeout": "time_limit", "single": "multi_process", "environment": "env"}


def to_flags(options: Mapping[str, Any]) -> JobFlags:
    """The job flags of the given keywords. TypeError for an unknown keyword, UsageError for a wrong value."""
    given = {name: value for name, value in options.items() if value is not None}
    _check_names(given)
    for name in _DURATIONS:
        if name in given:
            if f"{name}_s" in given:
                raise UsageError(f"`{name}` and `{name}_s` are the same option; give one of them")
            given[f"{name}_s"] = _seconds(name, given.pop(name))
    for name in _LISTS:
        if name in given:
            given[name] = _words_of(name, given[name])
    for name in _MAPS:
        if name in given:
            given[name] = {key: _text(f"`{name}`", value) for key, value in given[name].items()}
    return JobFlags(**given)


def _check_names(given: Mapping[str, object]) -> None:
    known = JobOptions.__annotations__
    for name in given:
        if name not in known:
            near = _OTHER_NAMES.get(name)
            hint = f"did you mean `{near}`?" if near else did_you_mean(name, known)
            raise TypeError(f"unexpected keyword `{name}`" + (f"; {hint}" if hint else ""))


def _seconds(name: str, value: object) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return parse_duration_s(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise UsageError(f"`{name}` is {value!r}", hint='give a duration: "2h30m", seconds, or a timedelta')


def _words_of(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UsageError(f"`{name}` is {value!r}, and it is a list of texts", hint=f"{name}=[{value!r}]")
    return tuple(_text(f"`{name}`", word) for word in value)


def command_words(command: object) -> tuple[str, ...]:
    """The words of a command. UsageError for one text: gofer splits no text, and no shell reads it."""
    if isinstance(command, (str, bytes, os.PathLike)):
        raise UsageError("the command is one text, and gofer.submit takes its words", hint=_as_list(command))
    if not isinstance(command, Sequence):
        raise UsageError(
            f"a command is a list of words, not {command!r}", hint='gofer.submit(["python", "train.py"])'
        )
    return tuple(_text("a command word", word) for word in command)


def _as_list(command: str | bytes | os.PathLike[Any]) -> str:
    """The call with which the text would run, for a person to copy."""
    import shlex

    text = os.fsdecode(command)
    is_shell_line = any(sign in text for sign in "|&;<>$`*?\n")
    try:
        words = ["bash", "-c", text] if is_shell_line else shlex.split(text)
    except ValueError:
        words = ["bash", "-c", text]
    hint = f"gofer.submit({words!r})"
    return hint if is_shell_line else f'{hint}, or ["bash", "-c", TEXT] for a line of shell'


def _text(what: str, value: object) -> str:
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise UsageError(f"{what} is {value!r}, and must be a text or a number")


def with_options(function: _Function) -> _Function:
    """Show the keywords of JobOptions in the signature of a function, for `help` and for completion."""
    own = inspect.signature(function)
    kept = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in JobOptions.__annotations__.items()
    ]
    function.__signature__ = own.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    return function
