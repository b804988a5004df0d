"""Turn the words of `gofer submit` into a request for ops."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from gofer.config.jobs import JobFlags
from gofer.errors import UsageError
from gofer.ops.submission.entry_point import script_of
from gofer.ops.submission.submit import SubmitRequest
from gofer.ops.submission.submitting_shell import read_all
from gofer.text import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Options of gofer that people write after the command by mistake.
_VALUED = (
    *("-n", "--gpus", "-N", "--nodes", "-c", "-t", "--target", "--procs", "--cpus", "--time-limit"),
    *("--retries", "--priority", "--packages"),
)
_FLAGS = ("-f", "--follow", "--wait", "--dry-run")
_SCRIPT_BYTES = 256 * 1024


class SubmitOptions(TypedDict):
    """The options of `gofer submit`, with the command."""

    target: str | None
    gpus: int | None
    nodes: str | None
    procs: int | None
    cpus: int | None
    memory: str | None
    gpu_type: str | None
    single: bool
    rank_variables: str | None
    launcher: str | None
    name: str | None
    tags: tuple[str, ...]
    env: tuple[str, ...]
    sync: tuple[str, ...]
    keep: str | None
    outputs: tuple[str, ...]
    packages: str | None
    wheels: str | None
    setup: str | None
    job: str | None
    code_folder: str | None
    code: str | None
    include: tuple[str, ...]
    with_git: bool
    stdin: bool
    no_code: bool
    each: tuple[str, ...]
    array: str | None
    after: tuple[str, ...]
    priority: int | None
    time_limit: str | None
    grace: str | None
    retries: int | None
    retry_on: str | None
    follow: bool
    wait: bool
    dry_run: bool
    as_json: bool
    quiet: bool
    command: tuple[str, ...]


def build_request(given: SubmitOptions) -> SubmitRequest:
    """The request; UsageError for a value that cannot be read. Nothing is checked against a target here."""
    flags = JobFlags(
        name=given["name"],
        gpus=given["gpus"],
        nodes=_nodes(given["nodes"]),
        procs=given["procs"],
        cpus=given["cpus"],
        memory=given["memory"],
        gpu_type=given["gpu_type"],
        setup=given["setup"],
        retries=given["retries"],
        priority=given["priority"],
        launcher=given["launcher"],
        rank_variables=given["rank_variables"],
        keep=given["keep"],
        packages=given["packages"],
        wheels=given["wheels"],
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
        after=tuple(given["after"]),
        stdin=read_all() if given["stdin"] else None,
        with_git=given["with_git"],
        stored_code=given["code"],
        code_folder=Path(given["code_folder"]) if given["code_folder"] else None,
    )


def misplaced_option(command: Sequence[str], here: Path) -> str | None:
    """A note when the first option after a script is one of gofer's and the script does not mention it.

    The command is not changed: the option belongs to the script, as all words after the command.
    """
    found = _script(list(command), here)
    if found is None:
        return None
    place, script = found
    words = list(command)[place + 1 :]
    at = next((at for at, word in enumerate(words) if word.startswith("-")), None)
    if at is None:
        return None
    option, equals, _ = words[at].partition("=")
    if option not in (*_VALUED, *_FLAGS) or _mentions(here / script, option):
        return None
    shown = " ".join(words[at : at + 1 + (option in _VALUED and not equals)])
    return f"note: `{shown}` is passed to `{script}`; gofer's own options come before the command"


def _script(command: list[str], here: Path) -> tuple[int, str] | None:
    """The place and path of the script in a command: also behind a launcher, or as `-m package.module`."""
    if not command:
        return None
    script = script_of(tuple(command)) or (command[0] if "/" in command[0] else None)
    if script is not None:
        return command.index(script), script
    for at, word in enumerate(command):
        module = f"{word.replace('.', '/')}.py" if at and command[at - 1] == "-m" else ""
        if word.endswith((".py", ".sh")) or (module and (here / module).is_file()):
            return at, module or word
    return None


def _mentions(path: Path, option: str) -> bool:
    """Whether the text of the script has the option. Long ones may be written as names, as in a dataclass.

    True for a file that is no text: what a program reads is not known.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_SCRIPT_BYTES).decode("utf-8", "replace")
    except OSError:
        return True
    if "\0" in text:
        return True
    name = option.lstrip("-")
    if len(name) == 1:
        return f'"{option}"' in text or f"'{option}'" in text or f"{option})" in text
    return name in text or name.replace("-", "_") in text


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


def _nodes(text: str | None) -> int | dict[str, int] | None:
    """A number of nodes, or `MIN:MAX`; UsageError for other text."""
    if text is None:
        return None
    least, colon, most = text.partition(":")
    numbers = [
        int(one) if one.isascii() and one.isdigit() else 0 for one in ([least, most] if colon else [text])
    ]
    if 0 in numbers or numbers != sorted(numbers):
        raise UsageError(
            f"`--nodes {text}` is no number of nodes",
            hint="write `--nodes 2`, or `--nodes 1:5` for one to five",
        )
    return {"min": numbers[0], "max": numbers[1]} if colon else numbers[0]


def _duration(text: str | None) -> float | None:
    return None if text is None else parse_duration_s(text)


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())
