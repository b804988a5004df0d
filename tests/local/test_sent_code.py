"""Code that was sent before: `gofer submit --code last` and `--code RUN`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from home import Home


@pytest.fixture
def project(home: Home) -> Home:
    """A project in a folder with an odd name, with a script in a subfolder."""
    home.folder = home.root / "my  proj'ect ü"
    (home.folder / "deep").mkdir(parents=True)
    (home.folder / "gofer.yaml").write_text("")
    (home.folder / "say.py").write_text("print('first')\n")
    (home.folder / "deep" / "tool.sh").write_text("#!/bin/sh\necho tool 1\n")
    (home.folder / "deep" / "tool.sh").chmod(0o755)
    return home


def finish(home: Home, *words: str, cwd: Path | None = None) -> str:
    """The id of a run after its end."""
    return home.gofer("submit", "-Q", "--wait", *words, cwd=cwd).out.strip()


def edit(home: Home) -> None:
    (home.folder / "say.py").write_text("print('edited')\n")
    (home.folder / "new.py").write_text("print('new')\n")


def test_the_code_of_the_last_submission_runs_without_later_edits(project: Home) -> None:
    first = finish(project, "say.py")
    edit(project)
    done = project.gofer("submit", "--wait", "--code", "last", "say.py")
    assert f"code: as it was sent with {first[-6:]}" in done.err
    assert project.log(done.out.strip()) == "first\n"
    assert project.log(finish(project, "say.py")) == "edited\n"
    # A run without code is passed over.
    finish(project, "--no-code", "true")
    assert project.log(finish(project, "--code", "last", "say.py")) == "edited\n"
    assert project.log(finish(project, "--code", first[-4:], "say.py")) == "first\n"


def test_the_code_that_init_sent_is_the_last_until_a_run_sends_newer(project: Home) -> None:
    project.gofer("init")
    edit(project)
    done = project.gofer("submit", "--wait", "--code", "last", "say.py")
    assert "code: as `gofer init` sent it" in done.err
    assert project.log(done.out.strip()) == "first\n"
    view = project.view(done.out.strip())
    assert view["snapshot"]["folder"] == str(project.folder)
    assert project.log(finish(project, "say.py")) == "edited\n"
    assert project.log(finish(project, "--code", "last", "say.py")) == "edited\n"


def test_what_init_sent_from_another_project_is_not_meant(project: Home) -> None:
    other = project.root / "other"
    other.mkdir()
    (other / "gofer.yaml").write_text("")
    project.gofer("init")
    refused = project.gofer("submit", "--code", "last", "true", cwd=other, status=1)
    assert f"no code has been sent from `{other}` yet" in refused.err


def test_the_command_starts_in_the_folder_where_it_was_typed(project: Home) -> None:
    finish(project, "true")
    (project.folder / "deep" / "tool.sh").unlink()
    deep = project.folder / "deep"
    run = finish(project, "--code", "last", "sh", "-c", 'basename "$PWD"; ls', cwd=deep)
    assert project.log(run) == "deep\ntool.sh\n"
    assert project.log(finish(project, "--code", "last", "./tool.sh", cwd=deep)) == "tool 1\n"


def test_the_permission_bits_are_those_that_were_sent(project: Home) -> None:
    finish(project, "true")
    os.chmod(project.folder / "deep" / "tool.sh", 0o644)
    assert project.log(finish(project, "--code", "last", "deep/tool.sh")) == "tool 1\n"


def test_a_script_that_the_old_code_does_not_have_is_refused(project: Home) -> None:
    finish(project, "say.py")
    edit(project)
    refused = project.gofer("submit", "--code", "last", "python", "new.py", status=1)
    assert "`new.py` is not in the code that was sent before" in refused.err
    bare = project.submit("true")
    assert "had no code" in project.gofer("submit", "--code", bare, "true", status=1).err
    assert "--code" in project.gofer("submit", "--code", "last", "--no-code", "true", status=2).err
    assert (
        "no run has the id or the name `nosuch`"
        in project.gofer("submit", "--code", "nosuch", "true", status=2).err
    )


def test_the_plan_names_the_code_and_sends_nothing(project: Home) -> None:
    first = finish(project, "say.py")
    edit(project)
    shown = json.loads(project.gofer("submit", "--dry-run", "--code", "last", "say.py").out)
    assert project.view(first)["snapshot"]["id"] in json.dumps(shown)


def test_an_array_and_a_repetition_of_it_have_the_old_code(project: Home) -> None:
    finish(project, "say.py")
    edit(project)
    group = finish(project, "--code", "last", "--each", "i=1..2", "say.py", "{i}")
    assert [project.log(f"{group}-{row}") for row in (0, 1)] == ["first\n", "first\n"]
    again = project.gofer("resubmit", "-Q", "--same-code", group).out.strip()
    project.gofer("wait", "-Q", again)
    assert project.log(f"{again}-1") == "first\n"


def test_the_code_goes_to_a_target_with_another_store(project: Home) -> None:
    there = project.root / "other disk"
    there.mkdir()
    project.configure(
        f"targets:\n  far: {{kind: local, store: far}}\nstores:\n  far: {{url: '{there.as_uri()}'}}\n"
    )
    finish(project, "say.py")
    edit(project)
    run = finish(project, "-t", "far", "--code", "last", "say.py")
    assert project.view(run)["store"] == there.as_uri()
    assert project.log(run) == "first\n"
