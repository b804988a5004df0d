"""The facts of a run as lines of text, the way `gofer query` shows them. Pure."""

from __future__ import annotations

import re
import sys
from itertools import groupby
from typing import TYPE_CHECKING

from gofer.cli.output.columns import summary
from gofer.cli.output.screen import columns_of, printable
from gofer.cli.output.table import Column, render, render_facts
from gofer.ops.runs.failures import explain
from gofer.ops.submission.gpu_oversight import SAW_NO_GPU
from gofer.text import count_runs, format_ago, format_duration, format_local_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gofer.ops.runs.failures import FirstFailure
    from gofer.ops.runs.node_reports import NodeUse
    from gofer.ops.runs.query import RunDetails
    from gofer.ops.runs.run_folder import GpuUse
    from gofer.tracking.ledger import RunRow

_SNAPSHOT_LETTERS = 12
_MOST_LEFT_OUT = 5
_MANY_RANKS = 5
_RANK = re.compile(r"/rank-(\d+)\.log$")


def describe(facts: RunDetails, *, now: float, log_shown: bool = False, colour: bool = False) -> str:
    """Log paths, then facts, then what failed first; a group has its failed rows instead.

    `log_shown`: the end of the log of rank 0 was already printed and is not repeated. Ages are at `now`.
    """
    parts = [_paths(facts), render_facts(_lines(facts, now), colour=colour)]
    failure = facts.first_failure
    if failure and failure.tail and not (log_shown and failure.rank == 0):
        parts.append(failing_rank(failure))
    if facts.failed_rows:
        parts.append(_failed_rows(facts, colour=colour))
    return "\n".join(part for part in parts if part)


def _paths(facts: RunDetails) -> str:
    """The paths of the logs. Many ranks in one folder are one pattern, which a shell expands."""
    return "".join(f"{printable(line)}\n" for line in collapse_ranks([str(path) for path in facts.log_paths]))


def collapse_ranks(paths: Sequence[str]) -> list[str]:
    """The paths, with five or more ranks in sequence as one pattern: `node-0/rank-{0..7}.log`."""
    lines: list[str] = []
    for folder, some in groupby(paths, key=lambda path: _RANK.sub("", path)):
        same = list(some)
        ranks = [int(found[1]) for path in same if (found := _RANK.search(path))]
        if len(same) >= _MANY_RANKS and ranks == list(range(ranks[0], ranks[0] + len(same))):
            lines.append(f"{folder}/rank-{{{ranks[0]}..{ranks[-1]}}}.log")
        else:
            lines += same
    return lines


def _lines(facts: RunDetails, now: float) -> list[tuple[str, str]]:
    row = facts.row
    ahead = f"; {count_runs(facts.ahead)} ahead" if facts.ahead else ""
    lines = [
        ("state", row.state),
        ("reason", row.reason or ""),
        ("why", f"{facts.why}{ahead}" if facts.why else ""),
        ("exit code", str(row.exit_code) if row.exit_code else ""),
        ("rows", summary(row.counts) if row.kind == "group" else ""),
        ("id", row.id),
        ("short id", row.short_id),
        ("name", row.name),
        ("target", row.target),
        ("job", row.service_id),
        ("command", facts.command),
        ("gpus", f"{row.gpus}, {SAW_NO_GPU}" if facts.saw_no_gpu else str(row.gpus)),
        ("nodes", _nodes(row)),
        ("hosts", ", ".join(facts.hosts)),
        ("generation", printable(facts.generation)),
        ("submitted", _moment(row.submitted_at, now)),
        ("started", _moment(row.started_at, now)),
        ("ended", _moment(row.ended_at, now)),
        ("elapsed", _elapsed(facts) if row.started_at is not None else ""),
        ("attempts", str(facts.attempts) if facts.attempts > 1 else ""),
        ("group", row.group_id or ""),
        ("values", _pairs(row.args)),
        ("tags", _pairs(row.tags)),
        ("snapshot", (row.snapshot or "")[:_SNAPSHOT_LETTERS]),
        ("code", printable(facts.code)),
        ("commit", printable(facts.commit)),
        ("peak", _peaks(facts.usage) if row.is_final else ""),
        ("usage", "" if row.is_final else "\n".join(map(_usage, facts.usage))),
        *_came_home(facts),
        ("shell", f"gofer ssh {row.short_id}" if facts.has_shell else ""),
        ("page", facts.page),
    ]
    return [(key, value) for key, value in lines if value]


def page_words(row: RunRow, page: str) -> str:
    """Where the page of a run is. On a terminal, an address that would fill several lines is replaced by the
    command that opens it.
    """
    if sys.stderr.isatty() and len(page) > columns_of(sys.stderr):
        return f"its page: `gofer view portal {row.short_id} --browse`"
    return f"its page: {page}"


def _elapsed(facts: RunDetails) -> str:
    last = f" (attempt {facts.attempts})" if facts.attempts > 1 else ""
    return f"{format_duration(facts.elapsed_s)}{last}"


def _nodes(row: RunRow) -> str:
    if row.procs == 1:
        return str(row.nodes)
    return f"{row.nodes} with {row.procs} processes{' each' if row.nodes > 1 else ''}"


def _moment(at: float | None, now: float) -> str:
    return "" if at is None else f"{format_local_time(at)} ({format_ago(now - at)})"


def _peaks(usage: Sequence[NodeUse]) -> str:
    """The highest readings of a run that has ended: memory and GPUs of each node."""
    lines = []
    for use in usage:
        node = f"node {use.node}, " if len(usage) > 1 else ""
        memory = use.rss_mib if use.rss_peak_mib is None else use.rss_peak_mib
        if memory is not None:
            lines.append(f"{node}memory {memory:.0f} MiB")
        lines += [
            f"{node}GPU {gpu.index}{f' {gpu.name}' if gpu.name else ''}: {_most(gpu)}" for gpu in use.gpus
        ]
    return "\n".join(lines)


def _most(gpu: GpuUse) -> str:
    used = gpu.memory_used_mib if gpu.memory_peak_mib is None else gpu.memory_peak_mib
    busy = gpu.utilisation if gpu.utilisation_peak is None else gpu.utilisation_peak
    total = "?" if gpu.memory_total_mib is None else f"{gpu.memory_total_mib:.0f}"
    shown = "?" if used is None else f"{used:.0f}"
    return f"{shown} of {total} MiB, {'?' if busy is None else f'{busy:.0f}'} % busy"


def _came_home(facts: RunDetails) -> list[tuple[str, str]]:
    """What the run left: outputs, other files, copies that stay on a node (`stays`), what was left out, up
    to which time the store has the files (`durable`), and how to fetch them.
    """
    found = facts.came_home
    left_out = [printable(f"{path} ({why})") for path, why in found.left_out[:_MOST_LEFT_OUT]]
    if found.left_count > len(left_out):
        left_out.append(f"{found.left_count - len(left_out):,} more")
    stays = [printable(f"{one.what}, on node {one.node}: {one.path}") for one in found.copies]
    has_files = found.outputs.files or found.files.files or found.copies
    return [
        ("outputs", printable(str(found.outputs))),
        ("files", printable(str(found.files))),
        ("stays", "\n".join(stays)),
        ("left out", "\n".join(left_out)),
        ("durable", found.last_durable),
        ("fetch", f"gofer extract {facts.row.short_id} DIR" if has_files else ""),
    ]


def _pairs(values: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" if value else key for key, value in values.items())


def _usage(use: NodeUse) -> str:
    """One node's last reading: its age, memory, and each GPU."""
    memory = "" if use.rss_mib is None else f", {use.rss_mib:.0f}{_peak(use.rss_peak_mib)} MiB of memory"
    lines = [f"node {use.node}, {format_duration(use.age_s)} ago{memory}"]
    for gpu in use.gpus:
        used = "?" if gpu.memory_used_mib is None else f"{gpu.memory_used_mib:.0f}"
        total = "?" if gpu.memory_total_mib is None else f"{gpu.memory_total_mib:.0f}"
        busy = "?" if gpu.utilisation is None else f"{gpu.utilisation:.0f}"
        name = f" {gpu.name}" if gpu.name else ""
        used, busy = used + _peak(gpu.memory_peak_mib), busy + _peak(gpu.utilisation_peak)
        lines.append(f"  GPU {gpu.index}{name}: {used} of {total} MiB, {busy} % busy")
    return "\n".join(lines)


def _peak(value: float | None) -> str:
    return "" if value is None else f" (peak {value:.0f})"


def failing_rank(failure: FirstFailure) -> str:
    """The end of the log of the rank that failed first: the others mostly fail because of it."""
    head = f"rank {failure.rank} on node {failure.node} failed first; its last lines:\n"
    return head + "".join(f"  {printable(line)}\n" for line in failure.tail)


def _failed_rows(facts: RunDetails, *, colour: bool) -> str:
    columns = [
        Column("FAILED"),
        Column("STATE", coloured=True),
        Column("VALUES", flexible=True),
        Column("WHY", flexible=True),
    ]
    rows = [[row.short_id, row.state, _pairs(row.args), row.why or ""] for row in facts.failed_rows]
    total = facts.row.counts.get("failed", 0) + facts.row.counts.get("lost", 0)
    if total == len(rows):
        return render(columns, rows, colour=colour)
    rest = f"gofer list runs --group {facts.row.short_id} --filter state=failed,lost"
    return render(columns, rows, colour=colour) + f"… and {total - len(rows)} more: `{rest}`\n"


def named(row: RunRow) -> str:
    """`r261117-073725-k9qd4x`; of a group, also how many runs it has: `… (50 runs: 5kbbc5-0 … 5kbbc5-49)`."""
    if row.kind != "group":
        return row.id
    rows = f"{row.short_id}-0" + (f" … {row.short_id}-{row.size - 1}" if row.size > 1 else "")
    return f"{row.id} ({count_runs(row.size)}: {rows})"


def failed_row_line(row: RunRow) -> str:
    """Which row of a group failed first, and the command that shows more."""
    values = f" ({_pairs(row.args)})" if row.args else ""
    cause = explain(row)
    why = f": {cause}" if cause else ""
    return f"{row.short_id}{values} {row.state} first{why}; `gofer logs {row.short_id}` prints its log"


def ended_line(row: RunRow, remarks: str = "") -> str:
    """`k9qd4x failed (exit-code): exited with 3`, or a group's rows by state; then `remarks`."""
    more = f"; {remarks}" if remarks else ""
    if row.kind == "group":
        return f"{row.short_id} {row.state}: {summary(row.counts)}{more}"
    reason = f" ({row.reason})" if row.reason else ""
    detail = f": {row.detail}" if row.detail else ""
    return f"{row.short_id} {row.state}{reason}{detail}{more}"
