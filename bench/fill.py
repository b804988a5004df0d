"""Fills gofer's ledger with finished runs, the only part of (a) that goes round the command line."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from bench import measure
from bench.places import gofer_argv, module_environment

_MINUTE_S = 60.0


def fill(home: Path, env: Mapping[str, str], runs: int) -> None:
    """Submits one run and writes `runs` like it, with ids, times and ends of their own, to the ledger under
    `home`.

    The copies have the real run's record, so that the ledger has the size it has in use. Raises BenchError
    when gofer does not take the run.
    """
    folder = home.parent / f"{home.name}-code"
    folder.mkdir()
    submitted = measure.run([*gofer_argv(), "submit", "true"], env=env, cwd=folder)
    run_id = submitted.output.strip()
    measure.run([*gofer_argv(), "wait", run_id], env=env, cwd=folder)
    # In a process of its own: this one's size is the floor of every peak memory it measures.
    copies = [sys.executable, "-m", "bench.fill", str(home / "ledger.db"), run_id, str(runs)]
    measure.run(copies, env=module_environment(env), cwd=folder)


def multiply(ledger_file: Path, run_id: str, runs: int) -> None:
    """Adds copies of the run `run_id` until there are `runs` of it, one a minute back into the past."""
    from gofer.model.ids import new_run_id
    from gofer.tracking.ledger import Ledger

    chance = random.Random(runs)
    now = time.time()
    with Ledger.open(ledger_file) as ledger:
        first = ledger.resolve(run_id)
        rows = []
        for number in range(1, runs):
            at = now - number * _MINUTE_S
            elapsed_s = chance.uniform(1, 50_000)
            failed = chance.random() < 0.1
            rows.append(
                first._replace(
                    id=new_run_id(at),
                    state="failed" if failed else "succeeded",
                    reason="exit-code" if failed else None,
                    exit_code=int(failed),
                    submitted_at=at,
                    started_at=at + 1,
                    ended_at=at + 1 + elapsed_s,
                    elapsed_s=elapsed_s,
                    tags={"lr": f"{chance.random():.4f}", "seed": str(number)},
                )
            )
        ledger.insert(rows)


if __name__ == "__main__":
    multiply(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
