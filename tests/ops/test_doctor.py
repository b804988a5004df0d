"""Each thing that can be wrong is found, named, and comes with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_record

from gofer.model.checks import Check, Status
from gofer.ops.doctor import doctor
from gofer.ops.session import Session
from gofer.queue.database import Queue


def worst_checks(session: Session) -> dict[str, Check]:
    """The checks by name; of several with one name, the worst."""
    found: dict[str, Check] = {}
    order = [Status.OK, Status.WARN, Status.FAIL]
    for check in sorted(doctor.checks(session), key=lambda one: order.index(one.status)):
        found[check.name] = check
    return found


def test_all_is_well_and_nothing_is_left_behind(project: OpsProject) -> None:
    project.add(make_record())
    found = worst_checks(project.session)
    assert [check for check in found.values() if not check.ok] == []
    assert set(found) == {
        "python",
        "bash",
        "git",
        "gpus",
        "ending runs",
        "settings",
        "secrets",
        "ledger",
        "disk",
        "store default",
        "store default disk",
        "target",
        "queue",
    }
    assert "1 runs" in found["ledger"].detail
    assert [info.key for info in project.store.list()] == ["runs/r261116-091233-k9qd4x/run.json"]


def test_programs_that_are_missing(project: OpsProject, tmp_path: Path) -> None:
    environ = {**project.environ, "PATH": str(tmp_path)}
    with Session(folder=project.folder, environ=environ) as session:
        found = worst_checks(session)
    assert (found["bash"].status, found["git"].status) == (Status.FAIL, Status.WARN)
    assert found["git"].hint == "install git"


def test_settings_that_cannot_be_read(project: OpsProject) -> None:
    (project.folder / "gofer.yaml").write_text("job:\n  gpu: 1\n")
    found = worst_checks(project.session)
    assert found["settings"].status == Status.FAIL
    assert "gofer.yaml:2" in found["settings"].detail
    assert found["settings"].hint == "did you mean `gpus`?"
    assert "store default" not in found


def test_words_in_the_environment_that_are_no_settings(project: OpsProject) -> None:
    environ = {**project.environ, "GOFER_GPU": "1"}
    with Session(folder=project.folder, environ=environ) as session:
        found = worst_checks(session)
    assert found["settings"].status == Status.WARN
    assert "`GOFER_GPU`" in found["settings"].detail


def test_a_store_that_is_not_there(project: OpsProject) -> None:
    (project.folder / "gofer.yaml").write_text("stores: {far: {url: 'file:///nowhere/at/all'}}\n")
    found = worst_checks(project.session)
    assert found["store far"].status == Status.FAIL
    assert "mkdir -p /nowhere/at/all" in (found["store far"].hint or "")
    assert found["store default"].status == Status.OK


def test_a_damaged_ledger_is_named_and_not_touched(project: OpsProject) -> None:
    path = project.session.paths.ledger_file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage " * 1000)
    found = worst_checks(project.session)
    assert found["ledger"].status == Status.FAIL
    assert "`gofer ledger rebuild`" in (found["ledger"].hint or "")
    assert path.read_bytes() == b"garbage " * 1000


@pytest.mark.parametrize(("mode", "status"), [(0o600, Status.OK), (0o640, Status.FAIL), (0o604, Status.FAIL)])
def test_secrets_that_others_can_read(project: OpsProject, mode: int, status: Status) -> None:
    path = project.session.paths.secrets_file
    path.parent.mkdir(parents=True)
    path.write_text('{"TOKEN": "not-a-real-secret"}')
    path.chmod(mode)
    found = worst_checks(project.session)["secrets"]
    assert found.status == status
    assert "not-a-real-secret" not in str(found)
    assert ("chmod 600" in (found.hint or "")) == (status == Status.FAIL)


def test_more_gpus_than_the_machine_has_or_a_target_that_is_not_there(project: OpsProject) -> None:
    with Session(folder=project.folder, environ=project.environ, target="lab") as session:
        found = worst_checks(session)
    assert found["target"].status == Status.FAIL
    assert "`lab`" in found["target"].detail


def test_open_runs_and_nobody_to_work_them_off(project: OpsProject) -> None:
    queue_home = str(project.session.paths.queue_home)
    queue = Queue(queue_home)
    queue.add({"id": "r1-1-a", "priority": 0}, [("r1-1-a", None, None)])
    queue.close()
    found = worst_checks(project.session)["queue"]
    assert (found.status, found.detail) == (Status.WARN, "no supervisor works; unfinished runs: 1")


def test_a_process_that_outlived_its_run(project: OpsProject) -> None:
    """Only of runs that this queue knows to have ended; other people's queues are not ours to judge."""
    queue_home = str(project.session.paths.queue_home)
    queue = Queue(queue_home)
    queue.add({"id": "r1-1-a", "priority": 0}, [("r1-1-a", None, None)])
    entries = queue.load_open()
    for entry in entries:
        entry.state = "succeeded"
    queue.save(entries)
    queue.close()
    program = [sys.executable, "-c", "import time; time.sleep(300)"]
    stray = subprocess.Popen(program, env={**os.environ, "GOFER_RUN_ID": "r1-1-a"})
    foreign = subprocess.Popen(program, env={**os.environ, "GOFER_RUN_ID": "r9-9-z"})
    try:
        deadline = time.monotonic() + 60
        while (found := worst_checks(project.session)["queue"]).ok and found.hint is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert found.status == Status.WARN
        assert found.hint == f"`kill {stray.pid}`"
    finally:
        for one in (stray, foreign):
            one.kill()
            one.wait()
