"""One round of the drill: a home, its commands, the killed processes, and the checks at the end."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from random import Random

from drill import aftermath, evidence, moments, processes, verdict
from drill.command import Command
from drill.home import Home
from drill.processes import Process
from drill.tally import Tally, Violation
from drill.workload import Spec, row_end

WAIT_S = 300
_LAST = 1_000_000


class Round:
    """The history of one home. Call `settle` once, and then `close` once."""

    def __init__(self, scenario: str, seed: int, tally: Tally, home: Home) -> None:
        self.scenario = scenario
        self.seed = seed
        self.tally = tally
        self.home = home
        self.rng = Random(seed)
        self.specs: dict[str, Spec] = {}
        self.commands: list[Command] = []
        self.printed: set[str] = set()
        self.killed: set[Process] = set()
        self.aborted: set[str] = set()
        self.restarted: set[str] = set()
        self.may_refuse = False
        # What a rebuilt ledger must have as before; empty for everything.
        self.rebuilt_keys: tuple[str, ...] = ()
        self.violations: list[Violation] = []
        self.listing: evidence.Listing | None = None
        self._started = 0
        tally.rounds[scenario] += 1

    def violate(self, words: str) -> None:
        self.violations.append(Violation(self.scenario, self.seed, words))

    def kill_supervisor(self, words: str = "") -> bool:
        """False when there is none; `words` go with the moment in the summary."""
        supervisor_process, moment = processes.supervisor(self.home), moments.of_supervisor(self.home)
        if supervisor_process is None or not processes.send_signal(supervisor_process):
            return False
        self.killed.add(supervisor_process)
        self.tally.kill("supervisor", moment + words)
        return True

    def kill_agent(self, who: Process) -> bool:
        """False when it was gone already."""
        if not processes.send_signal(who):
            return False
        self.killed.add(who)
        self.tally.kill("agent", moments.of_agent(self.home, who))
        return True

    # -- commands

    def start(self, words: list[str], spec: Spec | None = None) -> Command:
        """Start a gofer command; call `collect` when it has ended."""
        self._started += 1
        output = self.home.root / f"command-{self._started}.out"
        command = Command(self.home.start(words, output), output, words[0], spec)
        if spec is not None:
            self.specs[spec.tag] = spec
        self.commands.append(command)
        return command

    def submit(self, spec: Spec) -> str | None:
        """Submit and wait for the answer: the id, or None when it was refused."""
        command = self.start(spec.words(self.home.script), spec)
        command.process.wait(WAIT_S)
        self.collect(command)
        lines = command.printed()
        return lines[0] if lines else None

    def collect(self, command: Command) -> None:
        """Read what an ended command printed. A command that failed by itself is a violation."""
        self.commands.remove(command)
        if command.verb in ("submit", "resubmit"):
            self.printed.update(command.printed())
        code = command.process.returncode
        refused = code > 0 and command.verb in ("submit", "list") and not self.may_refuse
        self._check_answer(command.verb, code, command.output.with_suffix(".err").read_text(), bad=refused)

    def _check_answer(self, verb: str, code: int, errors: str, *, bad: bool = False) -> None:
        """An unexpected error or a traceback is a violation."""
        if bad or "Traceback" in errors or "unexpected" in errors:
            self.violate(f"`gofer {verb}` exited with {code}: {errors.strip()[-400:]}")

    def finish_commands(self) -> None:
        """Wait until every running command has ended."""
        for command in list(self.commands):
            try:
                command.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.violate(f"`gofer {command.verb}` hangs")
                command.process.kill()
                command.process.wait()
            self.collect(command)

    # -- the checks at the end

    def settle(self) -> None:
        """Wait until everything has ended, then compare what gofer says with what happened.

        The last submission is not disturbed: it must work, and it cleans up after the killed ones.
        """
        self.finish_commands()
        self.may_refuse = False
        self.submit(Spec(_LAST))
        try:
            owners = evidence.ask(self.home).owners
            if owners:
                words = ("wait", "--quiet", "--timeout", f"{WAIT_S}s", *owners)
                answer = self.home.run(*words, timeout_s=WAIT_S + 60)
                self._check_answer("wait", answer.returncode, answer.stderr)
            self.listing = evidence.ask(self.home)
        except (evidence.Unanswered, subprocess.TimeoutExpired) as error:
            self.violate(str(error))
            return
        self._check_ids(self.listing)
        self._check_runs(self.listing)

    def _check_ids(self, listing: evidence.Listing) -> None:
        for missing in self.printed - set(listing.owners):
            self.violate(f"NEVER recorded: the id {missing} was printed")
        firsts = Counter(tag for one, tag in listing.owners.items() if one not in listing.resubmitted)
        for tag, count in firsts.items():
            if count > 1:
                self.violate(f"DOUBLED: submission {tag} was recorded {count} times")
        for ghost in set(evidence.read_marks(self.home)) - {run.id for run in listing.runs}:
            self.violate(f"{ghost} ran and is not recorded")
        stored = {path.parent.name for path in (self.home.store / "runs").glob("*/run.json")}
        if stored != set(listing.owners):
            self.violate(f"store and ledger differ in {sorted(stored ^ set(listing.owners))}")

    def _check_runs(self, listing: evidence.Listing) -> None:
        marks = evidence.read_marks(self.home)
        seen = evidence.agents_seen(self.home)
        struck: dict[str, set[int]] = defaultdict(set)
        for who in self.killed & set(seen):
            struck[seen[who].run_id].add(seen[who].attempt)
        for run in listing.runs:
            spec = self.specs.get(run.tag)
            if spec is None:
                self.violate(f"{run.id} has the tag {run.tag!r}, which no submission has")
                continue
            case = verdict.Case(
                run,
                spec,
                marks.get(run.id, {}),
                {one.number: evidence.fenced_ranks(self.home, run.id, one.number) for one in run.attempts},
                struck[run.id],
                aborted=bool({run.id, run.owner} & self.aborted),
                restarted=run.owner in self.restarted,
            )
            self._count(case)
            for words in verdict.judge(case):
                self.violate(f"{run.id} {words}")
            self._check_command(run, spec)

    def _check_command(self, run: evidence.Run, spec: Spec) -> None:
        if run.resubmit_of is not None:
            return
        row = int(run.id.rsplit("-", 1)[1]) if spec.rows else 0
        wanted = spec.command(self.home.script, spec.nap, row_end(row) if spec.rows else spec.end)
        if run.command != wanted:
            self.violate(f"{run.id} is recorded as {run.command} and was submitted as {wanted}")

    def _count(self, case: verdict.Case) -> None:
        facts = self.tally.facts
        self.tally.states[case.run.state] += 1
        facts["attempts"] += len(case.run.attempts)
        started = [number for number, ranks in case.marks.items() if ranks]
        facts["attempts started"] += len(started)
        facts["attempts lost, agent killed"] += sum(one.state == "lost" for one in case.run.attempts)
        facts["attempts lost between log and first act"] += sum(
            one.state == "lost" and one.number not in started for one in case.run.attempts
        )

    def close(self) -> list[Violation]:
        """Check that nothing is left, once the processes had time to end. Returns the round's violations."""
        for words in (*aftermath.leftovers(self.home, self.listing), *aftermath.cgroups(self.killed)):
            self.violate(words)
        if self.listing is not None:
            for words in aftermath.rebuilt(self.home, self.listing, keys=self.rebuilt_keys):
                self.violate(words)
        for words in aftermath.stray_files(self.home):
            self.violate(words)
        return self.violations
