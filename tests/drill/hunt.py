"""Random kills: commands, supervisors and agents, alone and together, at random or chosen moments."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random

from drill import evidence, prey
from drill.home import Home
from drill.prey import Process
from drill.round import Command, Round
from drill.workload import draw

_MOST_COMMANDS = 3
_LOOK_S = 0.0003


def delay_s(rng: Random, longest_s: float) -> float:
    """Half the time uniform up to `longest_s`, half the time log-uniform from 0.1 ms: early moments count."""
    if rng.random() < 0.5:
        return rng.uniform(0.0, longest_s)
    return math.exp(rng.uniform(math.log(1e-4), math.log(longest_s)))


def until(probe: Callable[[], bool], *, timeout_s: float) -> bool:
    """Look as often as possible until `probe` holds; False when time is up."""
    deadline = time.monotonic() + timeout_s
    while not probe():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


class Hunter:
    """Submits, stops, repeats and kills in one home until it has made its kills."""

    def __init__(self, game: Round, kills: int) -> None:
        self.game = game
        self.home = game.home
        self.rng = game.rng
        self.left = kills
        self._number = 0

    def run(self) -> None:
        """Ends with no stopped process and every command collected or under way."""
        self._submit(die=False)
        while self.left > 0:
            self._pick()()
            self._tend(self.rng.uniform(0.0, 0.12))

    def _pick(self) -> Callable[[], None]:
        if len(self.game.commands) >= _MOST_COMMANDS:
            return lambda: self._tend(0.05)
        choices: dict[Callable[[], None], float] = {
            lambda: self._submit(die=True): 7,
            lambda: self._submit(die=False): 3,
            self._strike_supervisor: 4,
            self._strike_agent: 5,
            self._strike_all: 1,
            self._pause_supervisor: 1,
            self._read: 1,
            self._stop_or_repeat: 2,
        }
        return self.rng.choices(list(choices), list(choices.values()))[0]

    # -- commands

    def _submit(self, *, die: bool) -> None:
        self._number += 1
        spec = draw(self.rng, self._number, with_code=True)
        command = self.game.start(spec.words(self.home.script), spec)
        if die:
            self._doom(command)

    def _read(self) -> None:
        self._doom(self.game.start(["list", "runs"]))

    def _stop_or_repeat(self) -> None:
        with suppress(evidence.Unanswered):
            owners = list(evidence.ask(self.home).owners)
            if not owners:
                return
            chosen = self.rng.choice(owners)
            verb = self.rng.choice(("abort", "abort", "resubmit"))
            self.game.aborted.add(chosen)
            command = self.game.start([verb, "--quiet", chosen])
            if self.rng.random() < 0.5:
                self._doom(command)

    def _doom(self, command: Command) -> None:
        """Choose its last moment: any time of its life, or soon after a step of it can be seen."""
        if command.verb != "submit" or self.rng.random() < 0.3:
            command.dies_at = time.monotonic() + delay_s(self.rng, 0.4)
            return
        places = (self.home.engine / "sealed", self.home.store / "runs", self.home.ledger)
        seen = self.rng.choice(places)
        before = _changed_ns(seen)
        until(lambda: command.has_ended or _changed_ns(seen) != before, timeout_s=1.0)
        command.dies_at = time.monotonic() + delay_s(self.rng, 0.04)

    def _tend(self, for_s: float) -> None:
        """Kill the doomed on time, collect the ended, until `for_s` is over."""
        deadline = time.monotonic() + for_s
        while True:
            for command in list(self.game.commands):
                if command.has_ended:
                    self.game.collect(command)
                elif command.dies_at is not None and time.monotonic() >= command.dies_at:
                    self._kill_command(command)
            if time.monotonic() >= deadline:
                return
            time.sleep(_LOOK_S)

    def _kill_command(self, command: Command) -> None:
        command.process.kill()
        command.process.wait()
        if command.process.returncode != -signal.SIGKILL:
            self.game.collect(command)
            return
        moment = moment_of_submit(self.home, command) if command.spec is not None else f"gofer {command.verb}"
        self.game.collect(command)
        self._count("command", moment)

    def _count(self, kind: str, moment: str) -> None:
        self.left -= 1
        self.game.tally.kill(kind, moment)

    # -- supervisors and agents

    def _strike_supervisor(self) -> None:
        if self.rng.random() < 0.5:
            until(lambda: "starting" in queue_states(self.home), timeout_s=0.3)
            time.sleep(delay_s(self.rng, 0.01))
        boss = prey.supervisor(self.home)
        moment = moment_of_supervisor(self.home)
        if boss is not None and prey.hit(boss):
            self._count("supervisor", moment)

    def _strike_agent(self) -> None:
        """One that has a share in most cases, as early in it as can be in half of them; else any."""
        if self.rng.random() < 0.5:
            until(lambda: "starting" in queue_states(self.home), timeout_s=0.4)
        else:
            until(lambda: bool(busy_agents(self.home)), timeout_s=0.4)
        found = prey.agents(self.home, prey.supervisor(self.home), set(evidence.agents_seen(self.home)))
        busy = [who for who in found if who in busy_agents(self.home)]
        if found:
            time.sleep(delay_s(self.rng, 0.02))
            self._kill_agent(self.rng.choice(busy or found))

    def _kill_agent(self, who: Process) -> None:
        if prey.hit(who):
            self.game.struck.add(who)
            self._count("agent", moment_of_agent(self.home, who))

    def _strike_all(self) -> None:
        """Supervisor first, so that nobody hears of the rest, then every agent and every command."""
        boss = prey.supervisor(self.home)
        found = prey.agents(self.home, boss, set(evidence.agents_seen(self.home)))
        moment = moment_of_supervisor(self.home)
        if boss is not None and prey.hit(boss):
            self._count("supervisor", f"{moment}, all at once")
        for who in found:
            self._kill_agent(who)
        for command in list(self.game.commands):
            if not command.has_ended:
                self._kill_command(command)

    def _pause_supervisor(self) -> None:
        boss = prey.supervisor(self.home)
        if boss is None or not prey.hit(boss, signal.SIGSTOP):
            return
        try:
            self._tend(self.rng.uniform(0.0, 1.0))
        finally:
            prey.hit(boss, signal.SIGCONT)
        self.game.tally.facts["supervisors paused"] += 1


def _changed_ns(path: Path) -> int:
    """When a folder got a new name, or a ledger a new line; 0 while it is not there."""
    try:
        return max(os.stat(one).st_mtime_ns for one in (path, f"{path}-wal") if os.path.exists(one))
    except (OSError, ValueError):
        return 0


# -- what was going on at the moment of a kill


def queue_states(home: Home) -> set[str]:
    """The states of the runs in the queue that have not ended."""
    sql = "SELECT DISTINCT state FROM runs WHERE state IN ('queued', 'starting', 'running')"
    return {str(row[0]) for row in _select(home.engine / "queue.db", sql)}


def busy_agents(home: Home) -> set[Process]:
    """The agents that the queue says are at work."""
    rows = _select(home.engine / "queue.db", "SELECT agents FROM runs WHERE state IN ('starting', 'running')")
    return {Process(*who) for (text,) in rows for who in json.loads(str(text))}


def _select(path: object, sql: str, *values: str) -> list[tuple[object, ...]]:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as database:
            return database.execute(sql, values).fetchall()
    except sqlite3.Error:
        return []


def moment_of_supervisor(home: Home) -> str:
    states = queue_states(home)
    for state, words in (
        ("starting", "a run starting"),
        ("running", "a run running"),
        ("queued", "runs waiting"),
    ):
        if state in states:
            return words
    return "idle"


def moment_of_agent(home: Home, who: Process) -> str:
    """Read after the kill, so that it is what the agent had come to."""
    place = evidence.agents_seen(home).get(who)
    if place is None:
        return "before its first event"
    if (place.folder / "exit.json").exists():
        return "after an exit record, or idle"
    return "command started" if list(place.folder.glob("rank-*.log")) else "before the command"


def moment_of_submit(home: Home, command: Command) -> str:
    """How far a killed submission had come."""
    if command.printed():
        return "submit: id printed"
    assert command.spec is not None
    sql = "SELECT id FROM runs WHERE group_id IS NULL AND json_extract(tags, '$.drill') = ?"
    found = _select(home.ledger, sql, command.spec.tag)
    if not found:
        return "submit: before the record"
    run_id = str(found[0][0])
    if not (home.store / "runs" / run_id / "run.json").exists():
        return "submit: in the ledger, not in the store"
    queued = _select(home.engine / "queue.db", "SELECT 1 FROM requests WHERE id = ?", run_id)
    return "submit: queued, id not printed" if queued else "submit: in the store, not queued"
