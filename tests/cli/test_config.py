"""`gofer config` as processes: one key read and changed, the editor, and all errors at once."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from home import Home
from terminal import Terminal

BROKEN = """\
target: lab
stores:
  s: {url: "http://x/y"}
targets:
  pool:
    kind: ssh
    hosts: me@box
    pythn: py
    job: {gpus: many, env: {TOKEN: "${secret:absent}", F: "${file:absent}"}, setup: 'echo ${secret:absent}'}
job:
  time_limit: soon
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "an odd: folder")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_set_get_and_unset_in_the_users_file(home: Home) -> None:
    file = home.path / "config.yaml"
    assert home.gofer("config", "path").out == f"{file}\n"
    home.gofer("config", "set", "job.time_limit", "12h")
    home.gofer("config", "set", "targets.box", "{kind: local, gpus: 2}")
    assert _mode(file) == 0o600
    assert home.gofer("config", "get", "job.time_limit").out == "12h\n"
    home.gofer("config", "set", 'targets."a.b".kind', "local")
    home.gofer("config", "set", "targets.a.b.gpus", "3")
    assert home.gofer("config", "get", "targets.a.b").out == "targets.a.b.kind: local\ntargets.a.b.gpus: 3\n"
    home.gofer("config", "unset", "targets.a.b.gpus")
    [row] = json.loads(home.gofer("config", "get", "--json", "targets.a.b").out)
    assert (row["value"], row["origin"].partition(":")[0]) == ("local", "config.yaml")
    gone = home.gofer("config", "unset", "job.time_limt", status=2)
    assert "does not set `job.time_limt`" in gone.err and "did you mean `time_limit`?" in gone.err
    assert "is not set" in home.gofer("config", "get", "job.tags.nothing", status=2).err


def test_the_projects_file_wins_and_set_says_so(home: Home) -> None:
    project = home.folder / "gofer.yaml"
    below = home.folder / "deep"
    below.mkdir()
    project.write_text("job: {gpus: 1}  # one\n")
    project.chmod(0o640)
    done = home.gofer("config", "set", "job.gpus", "2", cwd=below)
    assert "note: gofer.yaml:1 sets it to `1` here" in done.err
    home.gofer("config", "set", "--project", "job.gpus", "3", cwd=below)
    assert project.read_text() == "job: {gpus: 3}  # one\n"
    assert _mode(project) == 0o640
    assert home.gofer("config", "path", "--project", cwd=below).out == f"{project}\n"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("job.gpus", "many", "`job.gpus` must be a whole number, not `many`"),
        ("job.gpu", "1", "unknown key `gpu` in `job`"),
        ("targets.box.kind", "slrum", "there is no kind of target `slrum`"),
        ("target", "nowhere", "there is no target `nowhere`"),
        ("stores.s", "{url: 'az://c/p', account: a, key: plain}", "`stores.s.key` is written out"),
        ("job..gpus", "1", "is not a key"),
    ],
)
def test_what_would_break_the_settings_is_not_written(home: Home, key: str, value: str, words: str) -> None:
    file = home.path / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("job: {gpus: 1}\n")
    assert words in home.gofer("config", "set", key, value, status=2).err
    assert file.read_text() == "job: {gpus: 1}\n"


def test_one_of_two_errors_can_be_corrected(home: Home) -> None:
    (home.folder / "gofer.yaml").write_text("job: {gpus: many, time_limit: soon}\n")
    home.gofer("config", "set", "--project", "job.gpus", "4")
    assert (home.folder / "gofer.yaml").read_text() == "job: {gpus: 4, time_limit: soon}\n"


def test_a_link_stays_a_link(home: Home) -> None:
    dotfiles = home.root / "dotfiles" / "gofer.yaml"
    dotfiles.parent.mkdir()
    dotfiles.write_text("job: {gpus: 1}\n")
    home.path.mkdir()
    (home.path / "config.yaml").symlink_to(dotfiles)
    home.gofer("config", "set", "job.gpus", "2")
    assert (home.path / "config.yaml").is_symlink()
    assert dotfiles.read_text() == "job: {gpus: 2}\n"


def test_check_names_every_error_of_all_files(home: Home) -> None:
    (home.folder / "gofer.yaml").write_text(BROKEN)
    home.path.mkdir()
    (home.path / "config.yaml").write_text("jobs: {}\ntargets: {here: {kind: locl}}\n")
    done = home.gofer("config", "check", status=2)
    user = home.path / "config.yaml"
    for where, words in [
        (f"{user}:1", "unknown key `jobs`"),
        (f"{user}:2", "there is no kind of target `locl`"),
        ("gofer.yaml:1", "`target`: there is no target `lab`"),
        ("gofer.yaml:3", "no kind of store has addresses that begin with `http://`"),
        ("gofer.yaml:7", "`targets.pool.hosts` must be a list"),
        ("gofer.yaml:8", "unknown key `pythn`"),
        ("gofer.yaml:9", "`targets.pool.job.gpus` must be a whole number"),
        ("gofer.yaml:9", "`targets.pool.job.env.TOKEN`: there is no secret `absent`"),
        ("gofer.yaml:9", "`targets.pool.job.env.F`: cannot read"),
        ("gofer.yaml:11", "`soon` is not a duration"),
    ]:
        assert any(
            line.startswith(f"error: {where}: ") and words in line for line in done.out.splitlines()
        ), (
            where,
            words,
            done.out,
        )
    # A script is never searched for references.
    assert done.out.count("there is no secret") == 1
    found = json.loads(home.gofer("config", "check", "--json", status=2).out)
    assert len(found["errors"]) == 10 == done.out.count("error: ")
    assert [(one["file"], one["line"]) for one in found["errors"]][-1] == ("gofer.yaml", 11)


def test_check_names_what_folders_cannot_have(home: Home) -> None:
    (home.folder / "gofer.yaml").write_text(
        "folders:\n"
        "  data: {path: d, options: [negative_timeout=120]}\n"
        "  out: {path: o, mode: upload, read_only: true}\n"
        "  both: {path: b, mode: copy, options: [umask=077]}\n"
    )
    errors = home.gofer("config", "check", status=2).out.splitlines()
    expected = ["`negative_timeout=120`: rclone has none", "`mode: upload` writes to it", "those of a mount"]
    assert len(errors) == 3, errors
    for number, words in enumerate(expected, 2):
        assert errors[number - 2].startswith(f"error: gofer.yaml:{number}: ") and words in errors[number - 2]


def test_check_of_settings_without_errors(home: Home) -> None:
    assert home.gofer("config", "check").err == "no errors: there is no file of settings\n"
    (home.folder / "gofer.yaml").write_text("job: {env: {HERE: '${env:SURELY_UNSET}'}}\n")
    done = home.gofer("config", "check")
    assert (done.out, done.err.splitlines()[-1]) == ("", "no errors in gofer.yaml")
    assert "needs the variable `SURELY_UNSET`, which is not set" in done.err


def test_a_missing_secret_is_named_with_its_line_at_submit(home: Home) -> None:
    (home.folder / "gofer.yaml").write_text("job:\n  env:\n    KEY: ${secret:absent}\n")
    assert "gofer.yaml:3: there is no secret `absent`" in home.gofer("submit", "true", status=1).err


def test_list_under_broken_settings_says_what_is_old(home: Home) -> None:
    run = home.submit("sleep", "30")
    (home.folder / "gofer.yaml").write_text("a: 1\n")
    err = home.gofer("list").err
    assert "unknown key `a`; showing the state from" in err
    assert "`gofer config check` lists every error" in err
    (home.folder / "gofer.yaml").unlink()
    home.gofer("abort", run)


def _editor(home: Home, program: str) -> dict[str, str]:
    script = home.root / "editor.py"
    script.write_text(f"import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{program}\n")
    return {"VISUAL": f"{sys.executable} '{script}'"}


def test_edit_replaces_the_file_by_a_text_without_errors(home: Home) -> None:
    home.gofer("config", "edit", env=_editor(home, "file.write_text('job: {gpus: 7}  # odd\\n')"))
    assert (home.path / "config.yaml").read_text() == "job: {gpus: 7}  # odd\n"
    assert "is unchanged" in home.gofer("config", "edit", env=_editor(home, "pass")).err


def test_edit_keeps_the_text_that_it_refuses(home: Home) -> None:
    done = home.gofer("config", "edit", env=_editor(home, "file.write_text('jbo: 1\\n')"), status=2)
    assert "unknown key `jbo`" in done.err and not (home.path / "config.yaml").exists()
    kept = Path(done.err.rpartition("your text is in ")[2].strip())
    assert kept.read_text() == "jbo: 1\n"


def test_edit_asks_on_a_terminal_and_opens_the_text_again(home: Home) -> None:
    second = (
        "file.write_text(file.read_text().replace('jbo', 'job') if file.read_text() else 'jbo: {gpus: 1}\\n')"
    )
    env = {**home.environ, **_editor(home, second)}
    with Terminal(home.argv("config", "edit", "--project"), cwd=home.folder, env=env) as terminal:
        terminal.until("edit again?")
        assert "unknown key `jbo`" in terminal.shown
        terminal.type("y\r")
        assert terminal.end() == 0
    assert (home.folder / "gofer.yaml").read_text() == "job: {gpus: 1}\n"
    assert not [name for name in os.listdir(home.folder) if name != "gofer.yaml"]


def test_show_keeps_the_line_of_the_file_and_leaves_out_built_in_values(home: Home) -> None:
    home.configure("job: {env: {A_VERY_LONG_NAME_OF_A_VARIABLE: a value that is rather long as well}}\n")
    everything = home.gofer("config", "show").out.splitlines()
    assert len(everything) > 10
    changed = home.gofer("config", "show", "--changed").out.splitlines()
    assert [line.split()[0] for line in changed] == ["KEY", "job.env.A_VERY_LONG_NAME_OF_A_VARIABLE"]
    environment = {**home.environ, "COLUMNS": "70", "TERM": "xterm", "NO_COLOR": "1"}
    with Terminal(["gofer", "config", "show", "--changed"], cwd=home.folder, env=environment) as terminal:
        assert terminal.end() == 0
        lines = terminal.shown.replace("\r", "").splitlines()
    assert lines[1].endswith("gofer.yaml:1")
    assert "…" in lines[1] and max(map(len, lines)) <= 70


def test_list_fits_into_sixty_columns(home: Home) -> None:
    home.configure("targets: {a-rather-long-name: {kind: local, gpus: 4}}\n")
    home.finish("-t", "a-rather-long-name", "-n", "2", "--name", "a-name-of-a-run", "python", "-c", "pass")
    environment = {**home.environ, "COLUMNS": "60", "TERM": "xterm", "NO_COLOR": "1"}
    for words, missing in (([], "TARGET"), (["--columns", "short,state,target,gpus,command"], "REASON")):
        with Terminal(["gofer", "list", *words], cwd=home.folder, env=environment) as terminal:
            assert terminal.end() == 0
            lines = terminal.shown.replace("\r", "").splitlines()
        assert missing not in lines[0] and "STATE" in lines[0]
        assert max(map(len, lines)) <= 60
    assert lines[0].split() == ["ID", "STATE", "TARGET", "GPUS", "COMMAND"]
