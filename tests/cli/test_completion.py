"""Completion: what the shell is offered, through real shells where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from unit.cli.runs import a_run

import gofer
from gofer.cli.completion import candidates, script
from gofer.config.paths import Paths
from gofer.tracking.ledger import Ledger

SOURCE = Path(gofer.__file__).parents[1]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with two runs and a target `lab`."""
    monkeypatch.setenv("GOFER_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    paths = Paths.from_environment(os.environ)
    paths.config_file.write_text("targets:\n  lab: {kind: local}\n")
    with Ledger.open(paths.ledger_file) as ledger:
        ledger.insert(
            [
                a_run(),
                a_run(id="r260921-140641-bcdfgh", name="café"),
                a_run(id="r260921-140641-bcdfgj", name="café"),
            ]
        )
    return tmp_path


def _values(words: str, start: str = "") -> list[str]:
    return [item.value for item in candidates(words.split(), start)]


def test_verbs_come_first() -> None:
    assert _values("", "su") == ["submit"]
    assert "query" in _values("")
    assert _values("-n 8", "lo") == ["logs", "login", "logout"]


def test_options_before_and_behind_the_verb() -> None:
    assert _values("", "--tim") == ["--time-limit", "--timeout"]
    assert _values("submit", "--tim") == ["--time-limit"]
    assert _values("-n 8 submit", "--gr") == ["--grace"]


def test_nouns() -> None:
    assert _values("list") == ["runs", "jobs", "targets", "nodes"]
    assert _values("-c lab list", "r") == ["runs"]


def test_targets_are_offered_for_their_option(home: Path) -> None:
    assert _values("-c") == ["lab", "local"]
    assert _values("submit -t", "la") == ["lab"]
    assert _values("-n 8 submit --target") == ["lab", "local"]


def test_runs_are_offered_by_short_and_full_id(home: Path) -> None:
    assert set(_values("q")) == {"last", "k9qd4x", "bcdfgh", "bcdfgj"}
    assert _values("logs", "k9") == ["k9qd4x"]
    assert _values("-c lab abort", "r260921-140641") == ["r260921-140641-bcdfgj", "r260921-140641-bcdfgh"]
    assert _values("q", "ca") == ["café"]


def test_nothing_is_written_or_printed_without_older_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOFER_HOME", str(tmp_path / "none"))
    assert _values("logs", "k") == []
    assert list(tmp_path.iterdir()) == []


def test_broken_settings_offer_nothing(home: Path) -> None:
    (home / "config.yaml").write_text("targets: [")
    assert _values("-c") == []


def test_the_users_command_completes_files() -> None:
    (item,) = candidates(["submit", "python"], "tr")
    assert (item.type, item.value) == ("file", "tr")


def test_bash_completes_through_its_script(home: Path) -> None:
    folder = home / "bin"
    folder.mkdir()
    (folder / "gofer").write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m gofer "$@"\n')
    (folder / "gofer").chmod(0o755)
    lines = [
        script("bash"),
        'COMP_WORDS=(gofer -c lab logs k9); COMP_CWORD=4; _gofer_completion gofer; echo "${COMPREPLY[@]}"',
    ]
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "--norc", "-c", "\n".join(lines)],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "k9qd4x\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_asks_gofer(shell: str) -> None:
    text = script(shell)
    assert "_GOFER_COMPLETE" in text
    assert f"{shell}_complete" in text
    found = shutil.which(shell)
    if found:
        subprocess.run(
            [found, "-n", "-c", text] if shell != "fish" else [found, "-n"],
            input=text,
            text=True,
            check=True,
            timeout=60,
        )
