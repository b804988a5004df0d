"""Files that end in the middle of a line, as a crash of the machine leaves them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from drill import evidence
from drill.home import Home
from drill.round import Round
from drill.workload import Spec

if TYPE_CHECKING:
    from drill.runner import DrillRunner

_HALF = b'{"at":1.0,"event":"en'


def torn(runner: DrillRunner, kills: int) -> Iterator[Round]:
    """Torn lines, while runs go on and after, change no state and break no command."""
    del kills
    drill_round = runner.begin("torn", Home(runner.place()))
    for number, end in enumerate(("0", "7", "SIGKILL", "once:3", "0"), start=1):
        drill_round.submit(Spec(number, nap="0.4", end=end, retries=number % 2))
    drill_round.submit(Spec(6, nap="0.1", rows=8))
    _tear_while_running(drill_round)
    drill_round.settle()
    before = evidence.ask(drill_round.home)
    _tear_ended(drill_round, before)
    for words in (("ledger", "rebuild"), ("list", "runs", "--all"), ("query", "last")):
        answer = drill_round.home.run(*words)
        if answer.returncode != 0 or "Traceback" in answer.stderr:
            drill_round.violate(
                f"`gofer {' '.join(words)}` exited with {answer.returncode}: {answer.stderr[-300:]}"
            )
    after = drill_round.listing = evidence.ask(drill_round.home)
    for run_id, old in before.plain.items():
        new = after.plain.get(run_id, {})
        if (old["state"], old["reason"], old["exit_code"]) != tuple(
            new.get(key) for key in ("state", "reason", "exit_code")
        ):
            drill_round.violate(
                f"{run_id} was {old['state']} and is {new.get('state')} after its files were torn"
            )
    yield drill_round


def _tear_while_running(drill_round: Round) -> None:
    """Half a line behind whatever is there, again and again while the runs write too."""
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        # The folders of short rows go while they are listed, and with them the rest of this listing.
        with suppress(FileNotFoundError):
            for path in (drill_round.home.store / "runs").rglob("*.jsonl"):
                if drill_round.rng.random() < 0.3:
                    _append(path, _HALF)
            for folder in (drill_round.home.store / "runs").glob("*/attempts/*/node-*"):
                (folder / "heartbeat.json").write_bytes(b'{"at": 17')
        time.sleep(0.1)


def _tear_ended(drill_round: Round, listing: evidence.Listing) -> None:
    """Cut the last line of every file, and leave what a crash in the middle of a write may leave."""
    for path in (drill_round.home.store / "runs").rglob("*.jsonl"):
        data = b"\n".join(line for line in path.read_bytes().split(b"\n") if line.endswith(b"}"))
        path.write_bytes(data[: -drill_round.rng.randrange(1, 30)])
        if drill_round.rng.random() < 0.5:
            _append(path, b"\0\0\0\xff")
    runs = drill_round.home.store / "runs"
    for run_id in list(listing.owners)[:2]:
        (runs / run_id / "run.json.123.half").write_bytes(b'{"id": "r26')
    (runs / "r261116-000000-bbbbbb").mkdir()


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
