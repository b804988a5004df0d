"""The JSON of a run: its fields, its schema, and the table of them in docs/run-json.md.

`python -m gofer.ops.runs.run_document` prints the schema; `… --table` prints the table.
"""

from __future__ import annotations

import functools
import sys
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gofer.core.states import State

SCHEMA_VERSION = 1

Text = Annotated[str, Meta(min_length=1)]
Time = Annotated[
    str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$", description="RFC 3339, UTC, microseconds")
]
Count = Annotated[int, Meta(ge=0)]


class AttemptDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the run on the cluster."""

    number: Annotated[int, Meta(ge=1, description="counted from 1")]
    state: State
    reason: str | None
    detail: str | None
    exit_code: int | None
    started_at: Time | None
    ended_at: Time | None
    gpus: Annotated[list[list[int]], Meta(description="the GPUs it was given, a list for each node")]


class LogDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One log in the store."""

    attempt: Annotated[int, Meta(ge=1)]
    node: Count
    rank: Annotated[int | None, Meta(description="null for the log of a node's set-up")]
    key: Annotated[Text, Meta(description="the object's key in the run's store")]
    size: Annotated[int, Meta(ge=0, description="bytes, when asked")]
    path: Annotated[str | None, Meta(description="the file, where the store is a folder of this machine")]


class SnapshotDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The code the run runs."""

    id: Annotated[Text, Meta(description="names the same files on every machine")]
    folder: Annotated[str | None, Meta(description="where they were taken from")]
    commit: Annotated[str | None, Meta(description="git's, where the folder was a work tree")]
    branch: str | None
    dirty: Annotated[bool | None, Meta(description="whether files differed from the commit")]


class FailureDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The first rank to fail in the last attempt, by the clock, over all nodes."""

    attempt: Annotated[int, Meta(ge=1)]
    node: Count
    rank: Count
    exit_code: int | None
    signal: int | None
    at: Time | None
    tail: Annotated[list[str], Meta(description="the last lines of its log")]


class LeftFilesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Files of a run in one place."""

    files: Count
    bytes: Count
    is_all: Annotated[bool, Meta(description="false where counting stopped because there are very many")]


class CopyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A working copy that stayed on a node because it holds more than may be kept."""

    node: Count
    path: Annotated[Text, Meta(description="on the node")]


class LeftOutDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was not kept."""

    path: str
    why: str


class CameHomeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the run left, to be fetched by `gofer extract`."""

    outputs: Annotated[LeftFilesDocument, Meta(description="what it wrote to $GOFER_OUTPUT_DIR")]
    files: Annotated[LeftFilesDocument, Meta(description="what it wrote beside its code")]
    left_out: Annotated[
        list[LeftOutDocument],
        Meta(description="files that were not kept, at most 20 a node, with the reason"),
    ]
    left_out_count: Annotated[int, Meta(ge=0, description="how many files were not kept")]
    copies: list[CopyDocument]
    last_durable: Annotated[
        str | None,
        Meta(description="until when the store has what the command wrote; null where it has all of it"),
    ]


class GpuUseDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU of a node, as it was last read; null where the driver does not tell."""

    index: Count
    name: str | None
    memory_used_mib: float | None
    memory_peak_mib: Annotated[float | None, Meta(description="the highest of all readings")]
    memory_total_mib: float | None
    utilisation: Annotated[float | None, Meta(description="percent")]
    utilisation_peak: Annotated[float | None, Meta(description="percent, the highest of all readings")]


class UsageDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a node of the last attempt used, read every ten seconds."""

    node: Count
    at: Annotated[Time | None, Meta(description="when it was last read")]
    rss_mib: Annotated[float | None, Meta(description="memory of all processes of the node")]
    rss_peak_mib: Annotated[float | None, Meta(description="the highest of all readings")]
    gpus: list[GpuUseDocument]


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A run, a group of runs, or a row of a group, as every `--json` prints it."""

    schema: Annotated[
        int, Meta(description="the version of this document; changes when a field's meaning does")
    ]
    id: Text
    short_id: Annotated[Text, Meta(description="the end of the id, enough to name the run")]
    kind: Annotated[Literal["run", "group"], Meta(description="a group is an array as a whole")]
    name: str
    target: Text
    backend: Annotated[str, Meta(description="the kind of the target")]
    store: Annotated[Text, Meta(description="the URL of the store that holds the run's folder")]
    state: State
    reason: Annotated[str | None, Meta(description="one word: `exit-code`, `signal`, `out-of-memory`, …")]
    detail: Annotated[str | None, Meta(description="what the node or the cluster adds to the reason")]
    why: Annotated[
        str | None, Meta(description="the reason in words, for people; may change between versions")
    ]
    exit_code: Annotated[int | None, Meta(description="of the command; 128 + n when signal n ended it")]
    command: Annotated[list[str], Meta(description="argv, with a row's values filled in")]
    gpus: Annotated[int, Meta(ge=0, description="of the whole run")]
    nodes: Count
    procs: Annotated[int, Meta(ge=0, description="processes on each node")]
    priority: int
    submitted_at: Time
    started_at: Time | None
    ended_at: Time | None
    elapsed_s: Annotated[float | None, Meta(description="seconds it ran, up to now while it runs")]
    attempts: list[AttemptDocument]
    logs: Annotated[
        list[LogDocument] | None, Meta(description="null where logs were not looked for; [] for groups")
    ]
    snapshot: SnapshotDocument | None
    tags: dict[str, str]
    group: Annotated[str | None, Meta(description="for a row: the id of its group")]
    row: Annotated[int | None, Meta(description="for a row: its index, from 0")]
    args: Annotated[dict[str, str], Meta(description="for a row: its values by column")]
    first_failure: FailureDocument | None
    came_home: Annotated[
        CameHomeDocument | None, Meta(description="null where files were not looked for, and for groups")
    ]
    usage: Annotated[
        list[UsageDocument] | None,
        Meta(description="null where it was not looked for; [] for groups and runs of a few seconds"),
    ]
    saw_no_gpu: Annotated[bool, Meta(description="its target has GPUs, and it asked for none")]
    counts: Annotated[dict[str, int], Meta(description="for a group: its rows by state")]
    rows: Annotated[int | None, Meta(description="for a group: how many rows it has")]
    resubmit_of: Annotated[str | None, Meta(description="the id of the run this one repeats")]
    service_id: Annotated[
        Text | None, Meta(description="the cluster's own name of the run: the number of its Slurm job")
    ]
    observed_at: Annotated[Time | None, Meta(description="when the target was last asked")]
    stale: Annotated[
        str | None,
        Meta(description="why the state is that of `observed_at`: the target could not be asked now"),
    ]


@functools.cache
def run_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of RunDocument."""
    schema = msgspec.json.schema(RunDocument)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gofer run",
        **schema,
    }


def schema_text() -> str:
    """The schema as docs/run.schema.json holds it."""
    return msgspec.json.format(msgspec.json.encode(run_schema()), indent=2).decode() + "\n"


def field_table() -> str:
    """The table of docs/run-json.md: every field of every part, with its type and meaning."""
    parts = [_part_table(title, part) for title, part in _parts()]
    return "\n\n".join(parts) + "\n"


def _parts() -> list[tuple[str, dict[str, Any]]]:
    definitions: dict[str, dict[str, Any]] = run_schema()["$defs"]
    order = {
        "run": "RunDocument",
        "attempts[]": "AttemptDocument",
        "logs[]": "LogDocument",
        "snapshot": "SnapshotDocument",
        "first_failure": "FailureDocument",
        "usage[]": "UsageDocument",
        "usage[].gpus[]": "GpuUseDocument",
        "came_home": "CameHomeDocument",
        "came_home.outputs, came_home.files": "LeftFilesDocument",
        "came_home.left_out[]": "LeftOutDocument",
        "came_home.copies[]": "CopyDocument",
    }
    return [(title, definitions[name]) for title, name in order.items()]


def _part_table(title: str, part: dict[str, Any]) -> str:
    lines = [f"### {title}", "", part["description"], "", "| field | type | meaning |", "|---|---|---|"]
    for name, field in part["properties"].items():
        lines.append(f"| `{name}` | {_type_words(field)} | {_meaning(field)} |")
    return "\n".join(lines)


def _type_words(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type_words(one) for one in field["anyOf"]))
    if "$ref" in field:
        return "state" if field["$ref"].endswith("/State") else "object"
    if "enum" in field:
        return " or ".join(f"`{word}`" for word in field["enum"])
    words = str(field.get("type", "any"))
    if words == "array":
        return f"array of {_type_words(field['items'])}"
    if "pattern" in field and "RFC" in field.get("description", ""):
        return "time"
    return words


def _meaning(field: dict[str, Any]) -> str:
    text = str(field.get("description", ""))
    return "" if text.startswith("RFC 3339") else text


if __name__ == "__main__":
    sys.stdout.write(field_table() if "--table" in sys.argv else schema_text())
