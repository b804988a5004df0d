"""Explains why a run waits in a machine's queue, from the facts of gofer.queue.why_waiting. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gofer.backends.base import Waiting
from gofer.model.ids import short_id
from gofer.queue.why_waiting import Holder, WaitingFacts
from gofer.text import format_duration

_MOST_NAMED = 4
_WORDS = {"gpus": ("GPU", "GPUs"), "cpus": ("CPU", "CPUs")}


def explain(facts: WaitingFacts) -> Waiting:
    """The explanation. The estimate is an upper bound, unless runs of higher priority are submitted later."""
    return Waiting(_why(facts), facts.ahead, facts.estimate)


def _why(facts: WaitingFacts) -> str:
    if facts.is_stopping:
        return "it is about to be stopped, as requested"
    if facts.retry_in_s > 0:
        failed = facts.failed_attempts
        pause = format_duration(facts.retry_in_s)
        return f"attempt {failed} failed; attempt {failed + 1} begins in {pause}"
    if facts.lacks:
        needs = " and ".join(_need(kind, facts) for kind in facts.lacks)
        holders = _held(facts.holders, facts.lacks)
        return f"it needs {needs}{'; held by ' + holders if holders else ''}"
    if facts.head is not None:
        return f"enough is free, but it would delay {short_id(facts.head)}, the first run in the queue"
    return "no reason: it starts next"


def _need(kind: str, facts: WaitingFacts) -> str:
    if kind == "cpus":
        return f"{count(kind, facts.cpus)} ({facts.cpus_free} of {facts.machine_cpus} free)"
    split = f", not {facts.gpus_per_node} on one node" if facts.gpus_free >= facts.gpus else ""
    return f"{count(kind, facts.gpus)} ({facts.gpus_free} of {facts.target_gpus} free{split})"


def count(kind: str, number: int) -> str:
    """`1 GPU`, `4 CPUs`."""
    return f"{number} {_WORDS[kind][number != 1]}"


def _held(holders: Sequence[Holder], lacks: Sequence[str]) -> str:
    """The largest holders by name, the others by number."""
    named = []
    for holder in holders[:_MOST_NAMED]:
        what = ", ".join(count(kind, getattr(holder, kind)) for kind in lacks if getattr(holder, kind))
        named.append(f"{holder.person or short_id(holder.run_id or '')} ({what})")
    more = len(holders) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
