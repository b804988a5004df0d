"""Explains why a run waits in a machine's queue, from the facts of gofer.queue.why_waiting. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gofer.backends.base import Waiting
from gofer.model.ids import short_id
from gofer.text import format_duration

_MOST_NAMED = 4
_WORDS = {"gpus": ("GPU", "GPUs"), "cpus": ("CPU", "CPUs")}


def explain(facts: Mapping[str, Any]) -> Waiting:
    """The explanation. The estimate is an upper bound, unless runs of higher priority are submitted later."""
    return Waiting(_why(facts), facts["ahead"], facts["estimate"])


def _why(facts: Mapping[str, Any]) -> str:
    if facts["is_stopping"]:
        return "it is about to be stopped, as requested"
    if facts["retry_in_s"] > 0:
        tried = facts["failed_attempts"]
        soon = format_duration(facts["retry_in_s"])
        return f"attempt {tried} failed; attempt {tried + 1} begins in {soon}"
    if facts["lacks"]:
        needs = " and ".join(_need(kind, facts) for kind in facts["lacks"])
        holders = _held(facts["holders"], facts["lacks"])
        return f"it needs {needs}{'; held by ' + holders if holders else ''}"
    if facts["head"] is not None:
        return f"enough is free, but it would delay {short_id(facts['head'])}, the first run in the queue"
    return "no reason: it starts next"


def _need(kind: str, facts: Mapping[str, Any]) -> str:
    wanted = facts[kind]
    total = facts["target_gpus"] if kind == "gpus" else facts["machine_cpus"]
    free = facts[f"{kind}_free"]
    split = kind == "gpus" and free >= wanted
    more = f", not {facts['gpus_per_node']} on one node" if split else ""
    return f"{count(kind, wanted)} ({free} of {total} free{more})"


def count(kind: str, number: int) -> str:
    """`1 GPU`, `4 CPUs`."""
    return f"{number} {_WORDS[kind][number != 1]}"


def _held(holders: Sequence[Mapping[str, Any]], lacks: Sequence[str]) -> str:
    """The largest holders by name, the others by number."""
    named = []
    for holder in holders[:_MOST_NAMED]:
        what = ", ".join(count(kind, holder[kind]) for kind in lacks if holder[kind])
        named.append(f"{holder.get('who') or short_id(holder['id'])} ({what})")
    more = len(holders) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
