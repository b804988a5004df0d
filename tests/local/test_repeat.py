"""Code of a run: as it was at submit, brought back, and run again as it was or as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from home import Home, until


@pytest.fixture
def project(home: Home) -> Home:
    (home.folder / "say.py").write_text("print('first')\n")
    (home.folder / "deep").mkdir()
    (home.folder / "deep" / "tool.sh").write_text("#!/bin/sh\necho tool; pwd\n")
    (home.folder / "deep" / "tool.sh").chmod(0o755)
    (home.folder / ".gitignore").write_text("big/\nassets/\n")
    (home.folder / "big").mkdir()
    (home.folder / "big" / "data.bin").write_bytes(b"x" * 1000)
    return home


def submit(home: Home, *words: str, cwd: Path | None = None) -> str:
    return home.gofer("submit", "-Q", *words, cwd=cwd).out.strip()


def finish(home: Home, *words: str, cwd: Path | None = None) -> dict[str, Any]:
    return home.wait(submit(home, *words, cwd=cwd))[0]


def held(home: Home, gate: Path) -> str:
    cores = str(len(os.sched_getaffinity(0)))
    run = home.submit("--cpus", cores, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(run, "started")
    return run


def test_a_run_has_the_folder_as_it_was_at_submit(project: Home) -> None:
    gate = project.root / "gate"
    first = held(project, gate)
    run = submit(project, "sh", "-c", "python say.py; ls; cat added 2>/dev/null || true")
    (project.folder / "say.py").write_text("print('edited after submit')\n")
    (project.folder / "added").write_text("new\n")
    gate.touch()
    project.wait(first, run)
    assert project.log(run) == "first\ndeep\nsay.py\n"


def test_what_a_run_changes_in_its_code_changes_nothing_here(project: Home) -> None:
    run = finish(project, "sh", "-c", "echo changed > say.py; echo more > more; cat say.py")
    assert run["state"] == "succeeded"
    assert (project.folder / "say.py").read_text() == "print('first')\n"
    assert not (project.folder / "more").exists()
    assert finish(project, "python", "say.py")["state"] == "succeeded"


def test_each_node_has_a_copy_of_its_own_and_finds_its_files_again_in_the_next_attempt(project: Home) -> None:
    first = "[ ! -e mark ] || exit 9; echo $NODE_RANK > mark; sleep 0.3; exit 1"
    script = f'if [ "$GOFER_ATTEMPT" = 1 ]; then {first}; fi; [ "$(cat mark)" = "$NODE_RANK" ]'
    run = finish(project, "-N", "2", "--retries", "1", "sh", "-c", script)
    assert [one["exit_code"] for one in run["attempts"]] == [1, 0]


def test_a_command_given_below_the_project_runs_there(project: Home) -> None:
    project.configure("job: {}")
    run = finish(project, "./tool.sh", cwd=project.folder / "deep")
    word, folder = project.log(run["id"]).splitlines()
    assert (word, os.path.basename(folder)) == ("tool", "deep")


def test_a_bare_python_script_is_run_by_python(project: Home) -> None:
    run = finish(project, "say.py")
    assert run["command"] == ["python", "say.py"]
    assert project.log(run["id"]) == "first\n"


def test_which_python_files_run_under_python(project: Home) -> None:
    """The same answer on the command line and from Python."""
    (project.folder / "own.py").write_text("#!/bin/sh\necho shell\n")
    (project.folder / "own.py").chmod(0o755)
    tools = project.root / "tools"
    tools.mkdir()
    (tools / "tool.py").write_text("#!/bin/sh\necho tool\n")
    (tools / "tool.py").chmod(0o755)
    project.environ["PATH"] = f"{tools}:{project.environ['PATH']}"
    assert command_of(project, "say.py") == ["python", "say.py"]
    assert command_of(project, "./say.py") == ["python", "./say.py"]
    assert command_of(project, "own.py") == ["python", "own.py"]
    assert command_of(project, "./own.py") == ["./own.py"]
    assert command_of(project, "tool.py") == ["tool.py"]


def command_of(project: Home, word: str) -> list[str]:
    """The command of a run that is submitted on the command line, and from Python: equal."""
    code = f"import gofer; print(gofer.submit(['{word}']).id)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.folder,
        env=project.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = [project.view(one)["command"] for one in (done.stdout.strip(), submit(project, word))]
    assert found[0] == found[1]
    return list(found[0])


def test_a_script_that_does_not_exist_is_refused(project: Home) -> None:
    done = project.gofer("submit", "sya.py", status=1)
    assert "the script `sya.py` is not in" in done.err


def test_a_script_that_an_ignore_rule_leaves_out_is_refused(project: Home) -> None:
    (project.folder / ".goferignore").write_text("say.py\n")
    done = project.gofer("submit", "-Q", "python", "say.py", status=1)
    assert done.err.startswith("error: `say.py` is in ")
    assert "`include: [say.py]`" in done.err
    assert not list(project.store.glob("runs/*"))


def test_the_snapshot_tells_commit_and_whether_it_was_clean(project: Home) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(
            ["git", *identity, *words],
            cwd=project.folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.strip()

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "x")
    clean = finish(project, "python", "say.py")["snapshot"]
    assert (clean["commit"], clean["branch"], clean["dirty"]) == (git("rev-parse", "HEAD"), "main", False)
    (project.folder / "say.py").write_text("print('second')\n")
    dirty = finish(project, "python", "say.py")["snapshot"]
    assert dirty["dirty"] is True
    assert dirty["id"] != clean["id"]


# -- resubmit


def test_a_repeat_takes_the_code_as_it_is_now_and_says_so(project: Home) -> None:
    old = finish(project, "--tag", "lr=0.1", "--name", "talker", "python", "say.py")
    (project.folder / "say.py").write_text("print('second')\n")
    (project.folder / "extra.py").touch()
    done = project.gofer("resubmit", old["id"])
    new = project.wait(done.out.strip())[0]
    assert "the code differs: added extra.py, changed say.py" in done.err
    assert project.log(new["id"]) == "second\n"
    assert (new["tags"], new["name"], new["resubmit_of"]) == ({"lr": "0.1"}, "talker", old["id"])


def test_a_repeat_may_take_the_code_as_it_was(project: Home) -> None:
    old = finish(project, "python", "say.py")
    (project.folder / "say.py").write_text("print('second')\n")
    done = project.gofer("resubmit", "--same-code", old["id"])
    assert "the same code" in done.err
    new = project.wait(done.out.strip())[0]
    assert project.log(new["id"]) == "first\n"
    assert new["snapshot"]["id"] == old["snapshot"]["id"]
    # And its own repeat knows where the code came from.
    done = project.gofer("resubmit", new["id"])
    assert "the code differs: changed say.py" in done.err
    assert project.wait(done.out.strip()) and project.log(done.out.strip()) == "second\n"


def test_a_repeat_with_unchanged_code_says_that(project: Home) -> None:
    old = finish(project, "python", "say.py")
    done = project.gofer("resubmit", "--new-code", old["id"])
    assert "the same code" in done.err
    project.wait(done.out.strip())


def test_a_run_that_lives_is_stopped_first(project: Home) -> None:
    old = submit(project, "sh", "-c", "trap 'echo asked; exit 1' TERM; echo up; sleep 1000 & wait")
    project.until_logged(old, "up")
    done = project.gofer("resubmit", old)
    new = done.out.strip()
    assert f"{old[-6:]} has not ended: it is stopped first" in done.err
    assert project.view(old)["state"] == "cancelled"
    assert project.log(old) == "up\nasked\n"
    project.until_logged(new, "up")
    project.gofer("abort", new)


def test_nothing_is_stopped_when_the_repeat_cannot_be(project: Home) -> None:
    old = submit(project, "sh", "-c", "echo up; sleep 1000")
    project.until_logged(old, "up")
    project.gofer("resubmit", "-t", "nowhere", old, status=2)
    assert project.view(old)["state"] == "running"
    project.gofer("abort", "--grace", "0", old)


def test_a_repeat_elsewhere_brings_the_code_along(project: Home) -> None:
    elsewhere = project.root / "elsewhere"
    elsewhere.mkdir()
    project.configure(
        f"targets: {{other: {{kind: local, store: other}}}}\nstores: {{other: {{url: 'file://{elsewhere}'}}}}"
    )
    old = finish(project, "python", "say.py")
    (project.folder / "say.py").write_text("print('second')\n")
    new = project.wait(project.gofer("rerun", "-Q", "--same-code", "-t", "other", old["id"]).out.strip())[0]
    assert (new["target"], project.log(new["id"])) == ("other", "first\n")
    assert (elsewhere / "runs" / new["id"]).is_dir()


def test_without_the_folder_only_the_old_code_can_be_run(project: Home) -> None:
    old = finish(project, "python", "say.py")
    other = project.root / "other"
    other.mkdir()
    shutil.move(project.folder, project.root / "away")
    done = project.gofer("resubmit", old["id"], status=1, cwd=other)
    assert "which does not exist here" in done.err
    assert "--same-code" in done.err
    new = project.gofer("resubmit", "-Q", "--same-code", old["id"], cwd=other).out.strip()
    project.gofer("wait", new, cwd=other)
    assert project.gofer("logs", new, cwd=other).out == "first\n"


# -- extract


def test_extract_brings_code_logs_and_outputs(project: Home) -> None:
    script = 'python say.py; cd "$GOFER_OUTPUT_DIR"; mkdir -p sub; printf "\\000\\377" > sub/out.bin'
    run = finish(project, "--procs", "2", "sh", "-c", script)
    (project.folder / "say.py").write_text("print('edited since')\n")
    to = project.root / "extracted"
    project.gofer("extract", run["id"], str(to))
    assert (to / "code" / "say.py").read_text() == "print('first')\n"
    assert os.access(to / "code" / "deep" / "tool.sh", os.X_OK)
    assert not (to / "code" / "big").exists()
    assert (to / "outputs" / "sub" / "out.bin").read_bytes() == b"\0\xff"
    logs = {
        path.relative_to(to / "logs").as_posix(): path.read_text()
        for path in (to / "logs").rglob("rank-*.log")
    }
    assert logs == {"1/node-0/rank-0.log": "first\n", "1/node-0/rank-1.log": "first\n"}
    done = project.gofer("extract", run["id"], str(to), status=2)
    assert f"holds the run {run['id']}" in done.err


def test_query_brings_the_logs_byte_for_byte(project: Home) -> None:
    run = finish(project, "sh", "-c", "seq 1 3000; printf '\\377 no newline'")
    shown = project.gofer("q", run["id"]).out
    (copy,) = (project.folder / "assets" / run["id"]).rglob("rank-0.log")
    assert copy.read_bytes() == Path(run["logs"][0]["path"]).read_bytes()
    assert "\n2999\n" in shown
    assert "\n2900\n" not in shown
    assert str(copy.relative_to(project.folder)) in shown
    for fact in (run["id"], run["short_id"], "local", "succeeded"):
        assert fact in shown


def test_a_folder_inside_the_code_that_gets_the_files_of_a_run_is_named(project: Home) -> None:
    run = finish(project, "true")["id"]
    told = project.gofer("extract", run, "deep/re sults").err
    assert "the next submission sends `deep/re sults/` with the code" in told
    (project.folder / ".goferignore").write_text("/deep/re sults/\n")
    assert "next submission" not in project.gofer("extract", "--force", run, "deep/re sults").err
    assert "next submission" not in project.gofer("extract", run, "../outside").err
    assert "next submission" not in project.gofer("extract", run, "big/x").err


def test_packages_that_were_asked_for_and_are_listed_nowhere_are_named(project: Home) -> None:
    told = project.gofer("submit", "--wait", "--packages", "auto", "true").err
    assert "packages: none, since the code has no file that lists them" in told
    assert "packages:" not in project.gofer("submit", "--wait", "true").err


def test_the_files_of_a_run_that_has_not_ended_are_those_up_to_now(project: Home) -> None:
    gate = project.root / "gate"
    first = held(project, gate)
    told = project.gofer("extract", first, "../up to now").err
    assert f"{first[-6:]} has not ended: what it has written up to now is copied" in told
    gate.touch()
    until(lambda: project.gofer("ssh", first, "true", status=None).status != 0, "the end of the run")
    # The end is known although no other command has asked for it.
    assert "has not ended" not in project.gofer("extract", "--force", first, "../up to now").err
