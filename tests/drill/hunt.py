"""Random kills: commands, supervisors and agents, alone and together, at random or chosen moments."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from drill import evidence, moments, prey
from drill.command import Command
from drill.prey import Process
from drill.round import Round
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
            self._strike_supervisor: 5,
            self._strike_agent: 7,
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
            listing = evidence.ask(self.home)
            living = sorted({run.owner for run in listing.runs if run.state not in evidence.FINAL})
            chosen = self.rng.choice(living or sorted(listing.owners) or [""])
            if not chosen:
                return
            if chosen in living:
                self.game.aborted.add(chosen)
            verb = self.rng.choice(("abort", "abort", "resubmit"))
            command = self.game.start([verb, "--quiet", chosen])
            if self.rng.random() < 0.5:
                self._doom(command)

    def _doom(self, command: Command) -> None:
        """Choose its last moment: any time of its life, or soon after it has come to a certain point."""
        if command.verb != "submit" or self.rng.random() < 0.3:
            command.dies_at = time.monotonic() + delay_s(self.rng, 0.5)
            return
        point = self.rng.choice(moments.SUBMIT)
        until(lambda: command.has_ended or moments.has_come_to(self.home, command, point), timeout_s=2.0)
        command.dies_at = time.monotonic() + delay_s(self.rng, 0.008)

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
        moment = (
            moments.of_submit(self.home, command) if command.spec is not None else f"gofer {command.verb}"
        )
        self.game.collect(command)
        self.left -= 1
        self.game.tally.kill("command", moment)

    # -- supervisors and agents

    def _strike_supervisor(self) -> None:
        if self.rng.random() < 0.7:
            until(lambda: bool(moments.busy_agents(self.home, "starting")), timeout_s=0.5)
            time.sleep(delay_s(self.rng, 0.01))
        self.left -= self.game.kill_supervisor()

    def _strike_agent(self) -> None:
        """Mostly one that has a share, in half the cases as early in it as can be; else any."""
        state = self.rng.choice(("starting", "running"))
        busy: set[Process] = set()

        def look() -> bool:
            busy.update(moments.busy_agents(self.home, state))
            return bool(busy)

        until(look, timeout_s=0.6)
        if state == "running":
            time.sleep(delay_s(self.rng, 0.3))
        found = [who for who in sorted(busy) if prey.serves_queue(who.pid, self.home)]
        if not found:
            seen = set(evidence.agents_seen(self.home))
            found = prey.agents(self.home, prey.supervisor(self.home), seen)
        if found:
            self.left -= self.game.kill_agent(self.rng.choice(found))

    def _strike_all(self) -> None:
        """Supervisor first, so that nobody hears of the rest, then every agent and every command."""
        boss = prey.supervisor(self.home)
        found = prey.agents(self.home, boss, set(evidence.agents_seen(self.home)))
        self.left -= self.game.kill_supervisor(", all at once")
        for who in found:
            self.left -= self.game.kill_agent(who)
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
