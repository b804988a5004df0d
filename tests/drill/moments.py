"""What was going on when the drill struck, and how to wait for the moment to strike. Reads files only."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from drill import evidence
from drill.command import Command
from drill.home import Home
from drill.processes import Process

# How far a submission has come, in order.
SUBMIT = (
    "private values sealed",
    "in the ledger",
    "in the store",
    "in the queue",
    "id printed",
)


def select(path: Path, sql: str, *values: str) -> list[tuple[object, ...]]:
    """Nothing when there is no such file, or it is no database at the moment."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as database:
            return database.execute(sql, values).fetchall()
    except sqlite3.Error:
        return []


def busy_agents(home: Home, *states: str) -> set[Process]:
    """The agents that the queue says are at work on runs in these states."""
    marks = ", ".join("?" * len(states))
    rows = select(home.queue_home / "queue.db", f"SELECT agents FROM runs WHERE state IN ({marks})", *states)
    return {Process(*who) for (text,) in rows for who in json.loads(str(text))}


def of_supervisor(home: Home) -> str:
    rows = select(home.queue_home / "queue.db", "SELECT DISTINCT state FROM runs")
    states = {str(state) for (state,) in rows}
    words = {"starting": "a run starting", "running": "a run running", "queued": "runs waiting"}
    return next((told for state, told in words.items() if state in states), "idle")


def of_agent(home: Home, who: Process) -> str:
    """Read after the kill, so that it is what the agent had come to."""
    place = evidence.agents_seen(home).get(who)
    if place is None:
        return "before its first event"
    if (place.folder / "exit.json").exists():
        return "after an exit record, or idle"
    if list(place.folder.glob("rank-*.log")):
        return "command started"
    return "in set-up" if (place.folder / "setup.log").exists() else "before the command"


def of_submit(home: Home, command: Command) -> str:
    """How far a submission has come."""
    come = [point for point in SUBMIT if has_come_to(home, command, point)]
    return f"submit: {come[-1]}" if come else "submit: nothing to be seen yet"


def has_come_to(home: Home, command: Command, point: str) -> bool:
    """Whether the submission has passed this point of SUBMIT."""
    if point == "id printed":
        return bool(command.printed())
    if point == "private values sealed":
        return any((home.queue_home / "sealed").glob(f"*@{command.process.pid}:*"))
    run_id = _recorded_id(home, command)
    if run_id is None or point == "in the ledger":
        return run_id is not None
    if point == "in the store":
        return (home.store / "runs" / run_id / "run.json").exists()
    return bool(select(home.queue_home / "queue.db", "SELECT 1 FROM requests WHERE id = ?", run_id))


def _recorded_id(home: Home, command: Command) -> str | None:
    sql = "SELECT id FROM runs WHERE group_id IS NULL AND json_extract(tags, '$.drill') = ?"
    found = select(home.ledger, sql, command.spec.tag if command.spec else "")
    return str(found[0][0]) if found else None
