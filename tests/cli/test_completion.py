"""Completion: what the shell is offered, through real shells where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import Terminal
from unit.cli.runs import a_run

import gofer
from gofer.cli.completion import candidates, script
from gofer.config.paths import Paths
from gofer.config.secrets import Secrets
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
    assert _values("list", "--exp") == ["--export"]
    assert _values("-n 8 submit", "--gr") == ["--grace"]


def test_nouns() -> None:
    assert _values("list") == ["runs", "jobs", "targets", "nodes", "logins"]
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


@pytest.fixture
def tagged(home: Path) -> Path:
    """The home with tags, an array, stores, folders and a secret too."""
    paths = Paths.from_environment(os.environ)
    (home / "gofer.yaml").write_text(
        "stores: {blobs: {url: 'file:///tmp/blobs'}}\nfolders: {data: {path: d}, my.data-2: {path: e}}\n"
    )
    with Ledger.open(paths.ledger_file) as ledger:
        ledger.insert([a_run(id="r260921-140642-ffffff", tags={"lr": "0.1", "best": ""}, args={"seed": "1"})])
    Secrets(paths.secrets_file).set("WANDB", "dummy-key")
    return home


def test_filters_columns_and_tags(tagged: Path) -> None:
    assert _values("list --filter", "st") == ["state=", "started="]
    assert _values("list runs --filter", "state=s") == ["state=starting", "state=succeeded"]
    assert _values("abort --filter", "state=failed,lo") == ["state=failed,lost"]
    assert _values("--filter state=failed list --filter", "reason!=out") == ["reason!=out-of-memory"]
    assert _values("wait --filter", "target=") == ["target=lab", "target=local"]
    assert _values("wait --filter", "gpus>=") == []
    assert _values("tag --filter", "tag.") == ["tag.lr=", "tag.best="]
    assert _values("tag --filter", "tag.lr=") == ["tag.lr=0.1", "tag.lr=none"]
    assert _values("list --columns", "id,tag.") == ["id,tag.lr", "id,tag.best"]
    assert _values("list --columns", "id,state,stat") == []
    assert _values("list --sort", "arg.") == ["arg.seed"]
    assert _values("submit --tag", "lr") == ["lr=0.1"]
    assert _values("tag last", "b") == ["best"]
    assert _values("tag last --remove") == ["lr", "best"]
    assert _values("submit --retry-on", "signal,pre") == ["signal,preempted"]
    assert _values("submit --launcher", "t") == ["torchrun"]


def test_names_of_the_settings(tagged: Path) -> None:
    assert _values("target show", "la") == ["lab"]
    assert _values("secret rm") == ["WANDB"]
    assert _values("store show", "b") == ["blobs"]
    for verb in ("ls", "u", "d", "rm", "cp", "du"):
        assert {"data/", "my.data-2/", "blobs:"} <= set(_values(verb))
    (file,) = candidates(["u"], "data/x")
    assert file.type == "file"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("gofer list --filter state=fai", "gofer list --filter state=failed "),
        ("gofer list --filter stat", "gofer list --filter state="),
        ("gofer list --filter=reason=pre", "gofer list --filter=reason=preempted "),
        ("gofer list --filter 'reason=pre", "gofer list --filter 'reason=preempted' "),
        ("gofer abort --filter state=queued,fai", "gofer abort --filter state=queued,failed "),
        (
            "gofer --filter gpus=2 list --filter target=loc",
            "gofer --filter gpus=2 list --filter target=local ",
        ),
        ("gofer ls dat", "gofer ls data/"),
    ],
)
def test_bash_completes_what_it_splits_at_signs(tagged: Path, typed: str, line: str) -> None:
    """A real bash on a terminal, since bash alone decides which part of the line it replaces."""
    (tagged / "rc").write_text(f"PS1='ready> '\nbind 'set enable-bracketed-paste off'\n{script('bash')}\n")
    (tagged / "gofer").write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m gofer "$@"\n')
    (tagged / "gofer").chmod(0o755)
    environ = {**os.environ, "PATH": f"{tagged}:{os.environ['PATH']}", "TERM": "dumb", "COLUMNS": "200"}
    bash = shutil.which("bash")
    assert bash is not None
    with Terminal(
        [bash, "--noprofile", "--rcfile", str(tagged / "rc"), "-i"], cwd=tagged, env=environ
    ) as shell:
        shell.until("ready> ")
        shell.type(f"{typed}\t#")
        shell.until(f"ready> {line}#")


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
