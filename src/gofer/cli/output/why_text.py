"""The answer of `gofer why` as lines of text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.cli.output.columns import summary
from gofer.cli.output.screen import printable
from gofer.cli.output.table import render_facts
from gofer.cli.output.theme import paint
from gofer.ops.runs.failures import name_signal
from gofer.text import count_runs, format_duration, format_local_time

if TYPE_CHECKING:
    from gofer.ops.runs.failures import FirstFailure
    from gofer.ops.runs.run_folder import GpuUse
    from gofer.ops.runs.why import LifeSigns, ReasonCount, Why

_VERBS = {
    "pending": "waits",
    "queued": "waits",
    "running": "runs",
    "starting": "is starting",
    "paused": "is paused",
}
_WAS = ("cancelled", "lost")


def explained(answer: Why, *, colour: bool = False) -> str:
    """A sentence, the facts behind it, the last lines of what failed, and what to type next."""
    sentence = printable(_sentence(answer))
    if colour:
        sentence = _painted(sentence, answer.row.state)
    parts = [f"{sentence}\n", _indented(render_facts(_facts(answer)))]
    if answer.failure and answer.failure.tail:
        parts.append(_tail("its last lines:", answer.failure.tail))
    if answer.log_tail:
        parts.append(_tail("its last lines:", answer.log_tail))
    if answer.service_tail:
        parts.append(_tail("the service's own log ends:", answer.service_tail))
    parts += [_reason(one) for one in answer.reasons]
    if answer.next:
        # A line break in a quoted word stays one, so that the command can be pasted.
        steps = "".join("  " + "\n".join(map(printable, step.split("\n"))) + "\n" for step in answer.next)
        parts.append(f"next:\n{steps}")
    return "".join(part for part in parts if part)


def _painted(sentence: str, state: str) -> str:
    """The sentence with its verb, the word after the run, in the colour of the state."""
    run, _, rest = sentence.partition(" ")
    verb = next((verb for verb in (*_VERBS.values(), f"was {state}", state) if rest.startswith(verb)), "")
    return f"{run} {paint(verb, state)}{rest[len(verb) :]}" if verb else sentence


def _sentence(answer: Why) -> str:
    row = answer.row
    if row.kind == "group":
        return f"{row.short_id} is a group of {count_runs(row.size)}: {summary(row.counts)}"
    verb = _VERBS.get(row.state) or (f"was {row.state}" if row.state in _WAS else row.state)
    if row.state == "unknown":
        verb = "is in a state that gofer does not know"
    if row.state == "succeeded":
        more = f"; {answer.words}" if answer.words else ""
        return f"{row.short_id} succeeded after {format_duration(answer.elapsed_s)}{more}"
    return f"{row.short_id} {verb}{': ' + answer.words if answer.words else ''}"


def _facts(answer: Why) -> list[tuple[str, str]]:
    row, waiting = answer.row, answer.waiting
    lines = []
    if waiting is not None:
        lines += [
            ("ahead of it", "" if waiting.ahead is None else _runs(waiting.ahead)),
            ("estimated start", _estimate(waiting.estimate)),
            ("priority", str(row.priority) if row.priority else ""),
        ]
    if answer.life is not None:
        lines += _signs(answer, answer.life)
    if answer.failure is not None:
        lines += _failure(answer.failure, row.nodes * row.procs)
    if row.is_final and row.kind == "run" and row.state != "succeeded":
        ran = "" if answer.elapsed_s is None else f", after {format_duration(answer.elapsed_s)}"
        lines.append(("ended", f"{format_local_time(row.ended_at)}{ran}" if row.ended_at else ""))
    lines.append(("durable", answer.durable))
    lines.append(("attempts", str(len(row.attempts)) if len(row.attempts) > 1 else ""))
    return [(key, value) for key, value in lines if value]


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _estimate(at: float | None) -> str:
    return "" if at is None else f"{format_local_time(at)} (scheduler estimate)"


def _signs(answer: Why, life: LifeSigns) -> list[tuple[str, str]]:
    since = answer.row.started_at
    return [
        ("since", f"{format_local_time(since)}, {format_duration(answer.elapsed_s)} ago" if since else ""),
        ("heartbeat", f"{format_duration(life.beat_age_s)} ago" if life.beat_age_s is not None else ""),
        ("last line", f"{format_duration(life.log_age_s)} ago" if life.log_age_s is not None else ""),
        ("gpus", "\n".join(_gpu(node, one) for node, beat in life.beats.items() for one in beat.gpus)),
    ]


def _gpu(node: int, gpu: GpuUse) -> str:
    busy = "?" if gpu.utilisation is None else f"{gpu.utilisation:.0f}"
    used = "?" if gpu.memory_used_mib is None else f"{gpu.memory_used_mib:.0f}"
    return f"node {node}, GPU {gpu.index}: {busy} % busy, {used} MiB"


def _failure(failure: FirstFailure, ranks: int) -> list[tuple[str, str]]:
    return [
        ("failed first", f"rank {failure.rank} of {ranks}, on node {failure.node}"),
        ("exit code", "" if failure.exit_code is None else str(failure.exit_code)),
        ("signal", "" if failure.signal is None else name_signal(failure.signal).removeprefix("signal ")),
    ]


def _reason(one: ReasonCount) -> str:
    """One line, and of what failed the end of an example's log."""
    why = f": {one.why}" if one.why else ""
    line = f"{_runs(one.runs)} {one.state}{why}, for example {one.example}\n"
    return printable(line[:-1]) + "\n" + (_tail("", one.tail[-5:]) if one.tail else "")


def _tail(title: str, lines: tuple[str, ...]) -> str:
    head = f"{title}\n" if title else ""
    return head + "".join(f"  {printable(line)}\n" for line in lines)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
