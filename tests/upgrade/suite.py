"""What every kind of target keeps across an upgrade; a module for each kind has a class of these tests.

The older version cannot use a ledger that this version has opened, so it does its part first.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from home import Done, Home, until
from recorded.views import assert_holds, lasting

from upgrade.older_version import Pair

# Facts about a run that have to be the same from a home that found the run in the store.
LASTING = (
    "id",
    "name",
    "target",
    "backend",
    "store",
    "state",
    "reason",
    "exit_code",
    "command",
    "tags",
    "args",
)
JOB = """
echo "attempt $GOFER_ATTEMPT with $1 and [$SHOWN]"
mkdir -p made; echo new > made/file; ln -sf file made/link; chmod 750 made/file
echo "output $1" > "$GOFER_OUTPUT_DIR/result"
exit "$1"
"""


class Upgrade:
    """A subclass is for one kind of target, and has a fixture `pair`."""

    def test_runs_that_ended_read_as_before(self, pair: Pair, tmp_path: Path) -> None:
        older, newer, second = pair
        ids = finished_runs(older)
        before = {view: documents(older, view, ids) for view in VIEWS}
        assert [run["state"] for run in before["query"]] == ["succeeded", "failed", "failed", "failed"]
        rows = [run["id"] for run in before["list"] if run["kind"] == "run"]
        assert len(rows) == 5
        logs = {run: older.log(run) for run in rows}
        older.gofer("extract", "-Q", ids[0], str(tmp_path / "from-older"))
        for view in VIEWS:
            assert_holds(documents(newer, view, ids), before[view], view)
        second.gofer("list", "runs", "--everywhere")
        for run in rows:
            known = next(one for one in before["list"] if one["id"] == run)
            wanted = {name: value for name, value in known.items() if name in LASTING}
            assert_holds(lasting(second.view(run)), wanted, run)
            assert newer.log(run) == second.log(run) == logs[run] != ""
        wanted_files = contents(tmp_path / "from-older")
        assert "outputs/result" in wanted_files
        for name, home in (("newer", newer), ("second", second)):
            home.gofer("extract", "-Q", ids[0], str(tmp_path / f"from-{name}"))
            assert contents(tmp_path / f"from-{name}") == wanted_files

    def test_a_running_run_is_followed_and_ends(self, pair: Pair, tmp_path: Path) -> None:
        older, newer, second = pair
        gate = tmp_path / "gate"
        run = submit(
            older, "sh", "-c", f"echo up; until [ -e {gate} ]; do sleep 0.1; done; echo over; exit 3"
        )
        until_log(newer, run, "up\n")
        second.gofer("list", "runs", "--everywhere")
        until_log(second, run, "up\n")
        # A cluster is not asked at every look, so a view can be some seconds behind the log.
        until(lambda: newer.view(run)["state"] == "running", f"{run} running")
        followers = [home.start("logs", "-f", run) for home in (newer, second)]
        gate.touch()
        followed = [finish(follower) for follower in followers]
        assert [done.out for done in followed] == ["up\nover\n"] * 2, followed
        (ended,) = newer.wait(run)
        assert (ended["state"], ended["reason"], ended["exit_code"]) == ("failed", "exit-code", 3)

    def test_a_running_run_is_stopped(self, pair: Pair) -> None:
        older, newer, _ = pair
        script = 'trap "echo asked; exit 0" TERM; echo up; while :; do sleep 0.1; done'
        run = submit(older, "sh", "-c", script)
        until_log(newer, run, "up\n")
        newer.gofer("abort", "-Q", run)
        (ended,) = newer.wait(run)
        assert (ended["state"], ended["reason"]) == ("cancelled", "user")
        assert newer.log(run).splitlines()[-1] == "asked"

    def test_a_running_group_is_stopped_row_by_row(self, pair: Pair, tmp_path: Path) -> None:
        older, newer, _ = pair
        gate = tmp_path / "gate"
        script = f"echo row {{n}}; until [ -e {gate} ]; do sleep 0.1; done"
        group = submit(older, "--each", "n=1,2", "sh", "-c", script)
        for row in (0, 1):
            until_log(newer, f"{group}-{row}", f"row {row + 1}\n")
        newer.gofer("abort", "-Q", f"{group}-1")
        gate.touch()
        (ended,) = newer.wait(group)
        assert ended["counts"] == {"succeeded": 1, "cancelled": 1}
        # A supervisor of the older version cannot read what this version keeps beside such a run.
        until(lambda: older.supervisor() is None, "the end of the older supervisor")
        again = json.loads(newer.gofer("resubmit", "-Q", "--json", "--failed", group).out)[0]
        (ended,) = newer.wait(again["id"])
        assert ended["state"] == "succeeded", ended

    def test_a_run_that_ended_is_submitted_again(self, pair: Pair) -> None:
        older, newer, _ = pair
        first = finished_runs(older)[0]
        (older.folder / "job.sh").write_text("cat $GOFER_OUTPUT_DIR/result; exit 9\n")
        # A supervisor of the older version starts what this version submits, and in its own way.
        until(lambda: older.supervisor() is None, "the end of the older supervisor")
        new = again(newer, "--same-code", first)
        assert (new["state"], new["exit_code"], new["resubmit_of"]) == ("succeeded", 0, first)
        assert newer.log(new["id"]) == "attempt 1 with 0 and [seen]\n"
        new = again(newer, "--continue", first)
        assert (newer.log(new["id"]), new["exit_code"]) == ("output 0\n", 9)

    def test_a_running_run_is_resubmitted(self, pair: Pair) -> None:
        older, newer, _ = pair
        living = submit(older, "sh", "-c", "echo $GOFER_RUN_ID; sleep 300")
        until_log(newer, living, f"{living}\n")
        (new,) = json.loads(newer.gofer("resubmit", "-Q", "--json", living).out)
        assert newer.view(living)["state"] == "cancelled"
        until_log(newer, new["id"], f"{new['id']}\n")
        newer.gofer("abort", "-Q", new["id"])


# Each view with the words that print it as JSON.
VIEWS = {
    "query": ["q", "--json"],
    "why": ["why", "--json"],
    "logs": ["logs", "--json"],
    "list": ["list", "runs", "--json", "--rows", "--all"],
}


def submit(home: Home, *words: str) -> str:
    """The id of a run without code."""
    return home.gofer("submit", "-Q", "--no-code", *words).out.strip()


def finished_runs(home: Home) -> list[str]:
    """The ids of four runs that have ended: one that succeeded, and three that failed in different ways."""
    (home.folder / "job.sh").write_text(JOB)
    common = ["--env", "SHOWN=seen", "--tag", "kind=upgrade"]
    words = (
        ["bash", "job.sh", "0"],
        ["--retries", "1", "bash", "job.sh", "3"],
        ["--each", "code=0,5", "bash", "job.sh", "{code}"],
        ["--time-limit", "1s", "sh", "-c", "echo up; sleep 300"],
    )
    ids = [home.gofer("submit", "-Q", *common, *these).out.strip() for these in words]
    home.wait(*ids)
    return ids


def documents(home: Home, view: str, ids: list[str]) -> Any:
    """What a command prints of these runs, without what changes from one second to the next."""
    if view == "list":
        return lasting(json.loads(home.gofer(*VIEWS[view]).out))
    if view == "logs":
        answers = [home.gofer(*VIEWS[view], run, status=None).out for run in ids]
        return [lasting(json.loads(answer or "null")) for answer in answers]
    found = lasting(json.loads(home.gofer(*VIEWS[view], *ids).out))
    for one in found if view == "why" else ():
        one.pop("service_log", None)  # the older version shows it where this one shows the run's own lines
    return found


def until_log(home: Home, run: str, text: str) -> None:
    """Until `gofer logs` prints exactly this text."""
    until(lambda: home.gofer("logs", run, status=None).out == text, f"the log of {run}")


def finish(process: subprocess.Popen[bytes]) -> Done:
    out, err = process.communicate(timeout=200)
    return Done(process.returncode, out.decode(), err.decode())


def again(home: Home, *words: str) -> dict[str, Any]:
    """A run submitted again, once it has ended."""
    (new,) = json.loads(home.gofer("resubmit", "-Q", "--json", *words).out)
    (ended,) = home.wait(new["id"])
    return ended


def contents(folder: Path) -> dict[str, str]:
    """What every file below holds."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
