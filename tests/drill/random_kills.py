"""Random kills: commands, supervisors and agents, alone and together, at random or chosen moments."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from drill import evidence, moments, processes
from drill.command import Command
from drill.processes import Process
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
    """Call `probe` as often as possible until it is true; False when time is up."""
    deadline = time.monotonic() + timeout_s
    while not probe():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True


class RandomKiller:
    """Submits, stops, repeats and kills in one home until the number of kills is reached."""

    def __init__(self, drill_round: Round, kills: int) -> None:
        self.drill_round = drill_round
        self.home = drill_round.home
        self.rng = drill_round.rng
        self.kills_left = kills
        self._number = 0

    def run(self) -> None:
        """Ends with no stopped process and every command collected or under way."""
        self._submit(die=False)
        while self.kills_left > 0:
            self._pick()()
            self._kill_and_collect(self.rng.uniform(0.0, 0.12))

    def _pick(self) -> Callable[[], None]:
        if len(self.drill_round.commands) >= _MOST_COMMANDS:
            return lambda: self._kill_and_collect(0.05)
        choices: dict[Callable[[], None], float] = {
            lambda: self._submit(die=True): 7,
            lambda: self._submit(die=False): 3,
            self._kill_supervisor: 5,
            self._kill_agent: 7,
            self._kill_all: 1,
            self._pause_supervisor: 1,
            self._read: 1,
            self._stop_or_repeat: 2,
        }
        return self.rng.choices(list(choices), list(choices.values()))[0]

    # -- commands

    def _submit(self, *, die: bool) -> None:
        self._number += 1
        spec = draw(self.rng, self._number, with_code=True)
        command = self.drill_round.start(spec.words(self.home.script), spec)
        if die:
            self._plan_kill(command)

    def _read(self) -> None:
        self._plan_kill(self.drill_round.start(["list", "runs"]))

    def _stop_or_repeat(self) -> None:
        with suppress(evidence.Unanswered):
            listing = evidence.ask(self.home)
            living = sorted({run.owner for run in listing.runs if run.state not in evidence.FINAL})
            chosen = self.rng.choice(living or sorted(listing.owners) or [""])
            if not chosen:
                return
            if chosen in living:
                self.drill_round.aborted.add(chosen)
            verb = self.rng.choice(("abort", "abort", "resubmit"))
            command = self.drill_round.start([verb, "--quiet", chosen])
            if self.rng.random() < 0.5:
                self._plan_kill(command)

    def _plan_kill(self, command: Command) -> None:
        """Choose when to kill the command: at any time, or soon after it has reached a certain point."""
        if command.verb != "submit" or self.rng.random() < 0.3:
            command.dies_at = time.monotonic() + delay_s(self.rng, 0.5)
            return
        point = self.rng.choice(moments.SUBMIT)
        until(lambda: command.has_ended or moments.has_come_to(self.home, command, point), timeout_s=2.0)
        command.dies_at = time.monotonic() + delay_s(self.rng, 0.008)

    def _kill_and_collect(self, for_s: float) -> None:
        """Kill commands at their planned times and collect those that have ended, for `for_s` seconds."""
        deadline = time.monotonic() + for_s
        while True:
            for command in list(self.drill_round.commands):
                if command.has_ended:
                    self.drill_round.collect(command)
                elif command.dies_at is not None and time.monotonic() >= command.dies_at:
                    self._kill_command(command)
            if time.monotonic() >= deadline:
                return
            time.sleep(_LOOK_S)

    def _kill_command(self, command: Command) -> None:
        command.process.kill()
        command.process.wait()
        if command.process.returncode != -signal.SIGKILL:
            self.drill_round.collect(command)
            return
        moment = (
            moments.of_submit(self.home, command) if command.spec is not None else f"gofer {command.verb}"
        )
        self.drill_round.collect(command)
        self.kills_left -= 1
        self.drill_round.tally.kill("command", moment)

    # -- supervisors and agents

    def _kill_supervisor(self) -> None:
        if self.rng.random() < 0.7:
            until(lambda: bool(moments.busy_agents(self.home, "starting")), timeout_s=0.5)
            time.sleep(delay_s(self.rng, 0.01))
        self.kills_left -= self.drill_round.kill_supervisor()

    def _kill_agent(self) -> None:
        """Kill an agent that has work, in half the cases as early as possible; any agent if none has work."""
        state = self.rng.choice(("starting", "running"))
        busy: set[Process] = set()

        def any_busy() -> bool:
            busy.update(moments.busy_agents(self.home, state))
            return bool(busy)

        until(any_busy, timeout_s=0.6)
        if state == "running":
            time.sleep(delay_s(self.rng, 0.3))
        found = [who for who in sorted(busy) if processes.serves_queue(who.pid, self.home)]
        if not found:
            seen = set(evidence.agents_seen(self.home))
            found = processes.agents(self.home, processes.supervisor(self.home), seen)
        if found:
            self.kills_left -= self.drill_round.kill_agent(self.rng.choice(found))

    def _kill_all(self) -> None:
        """Kill the supervisor first, so that it does not act on other deaths, then the rest."""
        supervisor_process = processes.supervisor(self.home)
        found = processes.agents(self.home, supervisor_process, set(evidence.agents_seen(self.home)))
        self.kills_left -= self.drill_round.kill_supervisor(", all at once")
        for who in found:
            self.kills_left -= self.drill_round.kill_agent(who)
        for command in list(self.drill_round.commands):
            if not command.has_ended:
                self._kill_command(command)

    def _pause_supervisor(self) -> None:
        supervisor_process = processes.supervisor(self.home)
        if supervisor_process is None or not processes.send_signal(supervisor_process, signal.SIGSTOP):
            return
        try:
            self._kill_and_collect(self.rng.uniform(0.0, 1.0))
        finally:
            processes.send_signal(supervisor_process, signal.SIGCONT)
        self.drill_round.tally.facts["supervisors paused"] += 1
