"""Turn the words of `gofer submit` into a request for ops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gofer.config.jobs import JobFlags
from gofer.errors import UsageError
from gofer.ops.submission.submit import SubmitRequest
from gofer.ops.submission.submitting_shell import read_all
from gofer.text import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_AS_GIVEN = (
    *("name", "gpus", "nodes", "procs", "cpus", "setup", "retries", "priority"),
    *("launcher", "rank_variables", "keep", "packages", "wheels"),
)


def build_request(given: Mapping[str, Any]) -> SubmitRequest:
    """The request; UsageError for a value that cannot be read. Nothing is checked against a target here."""
    flags = JobFlags(
        **{name: given[name] for name in _AS_GIVEN},
        env=read_environment(given["env"], os.environ),
        tags=read_tags(given["tags"]),
        sync=tuple(pattern for pattern in given["sync"] if pattern) if given["sync"] else None,
        outputs=tuple(given["outputs"]) or None,
        time_limit_s=_duration(given["time_limit"]),
        grace_s=_duration(given["grace"]),
        retry_on=_words(given["retry_on"]),
        multi_process=False if given["single"] else None,
    )
    return SubmitRequest(
        flags=flags,
        command=tuple(given["command"]),
        target=given["target"],
        job_file=Path(given["job"]) if given["job"] else None,
        each=tuple(given["each"]),
        array_file=Path(given["array"]) if given["array"] else None,
        code=not given["no_code"],
        include=tuple(given["include"]),
        stdin=read_all() if given["stdin"] else None,
        with_git=given["with_git"],
        code_folder=Path(given["code_folder"]) if given["code_folder"] else None,
    )


def read_tags(texts: Iterable[str]) -> dict[str, str]:
    """Parse tags: `K=V`, or `K` for a tag without a value. A later tag of the same name replaces an earlier
    one.
    """
    pairs = [text.partition("=") for text in texts]
    for key, _, value in pairs:
        if not key:
            raise UsageError(f"the tag `={value}` has no name", hint="write `--tag NAME=VALUE`")
    return {key: value for key, _, value in pairs}


def read_environment(texts: Iterable[str], here: Mapping[str, str]) -> dict[str, str]:
    """Parse variables: `K=V`, or `K` for the value in `here`; UsageError when it is not set.

    `K` becomes a reference, because the value may be a credential: it is stored privately and never in a
    record.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals and key not in here:
            raise UsageError(
                f"`-e {key}` asks for a variable that is not set here", hint=f"write `-e {key}=VALUE`"
            )
        found[key] = value if equals else f"${{env:{key}}}"
    return found


def _duration(text: str | None) -> float | None:
    return None if text is None else parse_duration_s(text)


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())
