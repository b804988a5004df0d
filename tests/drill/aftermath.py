"""What may be left of a home after a round: no process, no half-written file, and a sound ledger."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from drill import evidence, processes
from drill.home import Home
from drill.processes import Process

# The supervisor leaves after three seconds without work; the rest is for a busy machine.
_PATIENCE_S = 60.0
_LONG_AGO_S = 2 * 86400.0
_CGROUPS = Path("/sys/fs/cgroup")


def leftovers(home: Home, listing: evidence.Listing | None) -> Iterator[str]:
    """Processes of this home that are still there when all runs have ended, and complaints of supervisors."""
    ids = {run.id for run in listing.runs} if listing is not None else set()
    deadline = time.monotonic() + _PATIENCE_S
    while (found := processes.left_over(home, ids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for line in found:
        yield f"LEFT running: {line}"
    try:
        log = (home.queue_home / "supervisor.log").read_text(errors="replace")
    except FileNotFoundError:
        log = ""
    if "Traceback" in log:
        yield f"a traceback in supervisor.log: {' / '.join(_last_words(log))}"


def cgroups(killed: set[Process]) -> Iterator[str]:
    """What supervisors were killed over must be gone, and what is left of agents must be empty."""
    probes = {f"gofer-probe-{who.pid}" for who in killed}
    agents = {f"gofer-agent-{who.pid}-{who.start}" for who in killed}
    # `os.walk` leaves out a folder that goes away meanwhile: other programs of the machine have cgroups too.
    for folder, _, _ in os.walk(_CGROUPS):
        name = os.path.basename(folder)
        if name in probes:
            yield f"LEFT: the cgroup {folder}"
        if name in agents and _processes_in(folder):
            yield f"LEFT: processes in the cgroup {folder}"


def _processes_in(cgroup: str) -> str:
    try:
        return Path(cgroup, "cgroup.procs").read_text()
    except OSError:
        return ""


def _last_words(log: str) -> list[str]:
    """Of each traceback the innermost place and the error."""
    lines = log.splitlines()
    ends = [i for i, line in enumerate(lines) if i and line[:1] not in ("", " ") and lines[i - 1][:2] == "  "]
    places = [next((one.strip() for one in lines[i::-1] if one.startswith("  File")), "") for i in ends]
    return sorted({f"{place} {lines[i]}" for i, place in zip(ends, places, strict=True)})


def rebuilt(home: Home, before: evidence.Listing, *, keys: Sequence[str] = ()) -> Iterator[str]:
    """`gofer ledger rebuild` must give the same answer as the ledger did, in these keys or in all."""
    for path in (home.store / ".gofer-tmp").glob("*"):
        # What a killed command left unfinished is swept after a day, by a command that opens the store.
        os.utime(path, (time.time() - _LONG_AGO_S,) * 2)
    answer = home.run("ledger", "rebuild")
    if answer.returncode != 0:
        yield f"`gofer ledger rebuild` exited with {answer.returncode}: {answer.stderr.strip()[-300:]}"
        return
    after = evidence.ask(home)
    for run_id in sorted(before.plain.keys() | after.plain.keys()):
        old, new = before.plain.get(run_id, {}), after.plain.get(run_id, {})
        changed = [key for key in keys or sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
        if changed:
            result = "; ".join(f"{key}: {old.get(key)!r} → {new.get(key)!r}" for key in changed[:3])
            yield f"{run_id} differs after a rebuild: {result[:400]}"


def stray_files(home: Home) -> Iterator[str]:
    """Half-written files, private values and working folders of runs that have ended."""
    paths = {path for folder in (home.gofer_home, home.queue_home, home.store) for path in folder.rglob("*")}
    for path in sorted(paths):
        if path.suffix in (".tmp", ".part") or path.parent.name == ".gofer-tmp":
            yield f"LEFT: {path}"
    for folder in (home.queue_home / "sealed", home.queue_home / "work", home.gofer_home / "w"):
        if folder.is_dir():
            yield from (f"LEFT: {folder.name}/{path.name}" for path in folder.iterdir())
