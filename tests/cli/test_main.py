"""The console script as a process: exit statuses, streams, pipes, and what it must not load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import gofer
from gofer._version import __version__
from gofer.config.secrets import Secrets

SOURCE = Path(gofer.__file__).parents[1]
HEAVY = ("msgspec", "yaml", "subprocess", "logging", "dataclasses", "asyncio")


def _gofer(*words: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "GOFER_HOME": str(home), **more}
    return subprocess.run(
        [sys.executable, "-m", "gofer", *words],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("words", [["version"], ["--version"], ["--debug", "--version"]])
def test_version(tmp_path: Path, words: list[str]) -> None:
    done = _gofer(*words, home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"gofer {__version__}\n", "")


def test_gofer_alone_prints_help(tmp_path: Path) -> None:
    done = _gofer(home=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: gofer")
    assert done.stdout == _gofer("--help", home=tmp_path).stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ("submti ls", "`gofer submti` is not a command", "did you mean `submit`?"),
        ("python train.py", "`gofer python` is not a command", "write `gofer submit python …`"),
        ("list rusn", "`gofer list rusn` is not a command", "did you mean `runs`?"),
        ("plot summary", "`gofer plot` is not a command", "this release draws nothing"),
        ("view errors", "`gofer view errors` is not a command", "`gofer why RUN`"),
        ("submit", "there is no command to run", "gofer submit python train.py"),
        ("submit -n many ls", "'many' is not a valid integer", "gofer submit --help"),
        ("extract", "missing argument 'RUN'", "gofer extract RUN DIR"),
        ("-f lab submit ls", "`gofer submit` moves no data", "gofer submit -f"),
        ("-n 8 list runs", "`gofer list runs` has no option `-n`", "gofer list runs --help"),
        ("list runs --fliter a=b", "`gofer list runs` has no option `--fliter`", "did you mean `--filter`?"),
        ("list runs --filter nonsense", "`nonsense` is not a filter", "state=failed"),
        ("list runs --columns stat", "`stat` is not a column", "did you mean `state`?"),
        ("completion csh", "'csh' is not one of", "gofer completion --help"),
        ("cancel job", "no run to stop was named", "gofer list runs"),
        ("wait --timeout soon last", "`soon` is not a duration", "1h30m"),
        ("logs last", "no run has been submitted yet", "gofer submit"),
        ("resubmit --same-code --new-code last", "contradict each other", "leave one"),
    ],
)
def test_bad_words_get_a_line_and_a_hint(tmp_path: Path, words: str, error: str, hint: str) -> None:
    done = _gofer(*words.split(), home=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert second.startswith("hint: ")
    assert hint in second


@pytest.mark.parametrize("words", [["tok", "dummy-value"], ["tok=dummy-value"]])
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(tmp_path: Path, words: list[str]) -> None:
    done = _gofer("secret", "set", *words, home=tmp_path)
    assert done.returncode == 2
    assert "`gofer secret set tok` asks for it" in done.stderr
    assert "dummy-value" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_secrets_come_from_stdin_and_are_never_shown(tmp_path: Path) -> None:
    environ = {**os.environ, "GOFER_HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "gofer", "secret", "set", "tok"]
    done = subprocess.run(
        argv, env=environ, input="dummy-value\n", capture_output=True, text=True, timeout=60, check=True
    )
    assert "dummy-value" not in done.stdout + done.stderr
    assert Secrets(tmp_path / "secrets.json").get("tok") == "dummy-value"
    assert _gofer("secret", "list", home=tmp_path).stdout == "tok\n"
    assert _gofer("secret", "rm", "tok", home=tmp_path).returncode == 0
    assert _gofer("secret", home=tmp_path).stdout == ""


def test_debug_before_a_wrong_verb_shows_the_traceback(tmp_path: Path) -> None:
    assert "Traceback" in _gofer("--debug", "submti", home=tmp_path).stderr
    assert "Traceback" in _gofer("submti", home=tmp_path, GOFER_DEBUG="1").stderr
    assert "Traceback" not in _gofer("submti", home=tmp_path, GOFER_DEBUG="0").stderr


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    program = (
        "import os; os.mkdir('x'); os.chdir('x'); os.rmdir('../x'); import gofer.cli.main as m; m.entry()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "list", "runs"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "GOFER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the current folder no longer exists\n")


def test_an_empty_ledger_lists_nothing(tmp_path: Path) -> None:
    done = _gofer("list", "runs", home=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("ID  NAME  STATE")
    assert done.stderr.startswith("no run yet; `gofer submit COMMAND` makes the first, ")
    assert _gofer("list", "runs", "--json", home=tmp_path).stdout == "[]\n"
    assert _gofer("q", home=tmp_path).stdout == done.stdout


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    script = f"{sys.executable} -m gofer config schema; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({script}) | true"], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "GOFER_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stderr == "141\n"


@pytest.mark.parametrize("words", [["version"], ["list", "runs"]])
def test_a_full_disk_behind_stdout_is_an_error(tmp_path: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gofer", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "GOFER_HOME": str(tmp_path)},
        )
    assert done.returncode == 1
    assert "error: no space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_is_130_without_a_word(tmp_path: Path) -> None:
    # `secret set` reads stdin, so it waits for ever.
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import gofer.cli.main as m, sys; print('up', flush=True); m.entry()",
            "secret",
            "set",
            "x",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GOFER_HOME": str(tmp_path)},
    )
    assert process.stdout is not None
    process.stdout.readline()
    _wait_until_reading(process.pid)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, b"")


def _wait_until_reading(pid: int) -> None:
    """Until the process sleeps in a read of its stdin."""
    import time

    for _ in range(5000):
        if "pipe" in Path(f"/proc/{pid}/wchan").read_text() or Path(
            f"/proc/{pid}/syscall"
        ).read_text().startswith("0 0x0"):
            return
        time.sleep(0.02)
    raise AssertionError("it never came to read its stdin")


@pytest.mark.parametrize("words", [["version"], ["list", "runs"], ["q"], ["--help"]])
def test_nothing_heavy_is_loaded(tmp_path: Path, words: list[str]) -> None:
    program = (
        "import sys; sys.argv = ['gofer', *sys.argv[1:]]\n"
        "from gofer.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    environ = {**os.environ, "GOFER_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(done.stderr.split())
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))
    assert ("click" in loaded) == (words != ["version"])


def test_help_loads_no_command(tmp_path: Path) -> None:
    program = (
        "import sys; from gofer.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {name for name in done.stderr.split() if name.startswith("gofer.cli.")}
    assert loaded == {
        f"gofer.cli.{name}" for name in ("main", "lazy", "options", "verbs", "option_order", "legacy_words")
    }


def test_the_facts_of_a_run_load_nothing_that_sends_or_starts_one(tmp_path: Path) -> None:
    assert _gofer("submit", "--wait", "--no-code", "true", home=tmp_path).returncode == 0
    program = (
        "import sys\nfrom gofer.cli.main import main\n"
        "main(['q', 'last'])\nprint(*sys.modules, file=sys.stderr)"
    )
    environ = {**os.environ, "GOFER_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=60, check=True
    )
    heavy = {"gofer.snapshot.capture", "gofer.queue.journal", "gofer.node.task", "gofer.ops.images.wrap"}
    assert heavy.isdisjoint(done.stderr.split())


def test_text_outside_the_locale_is_escaped_and_not_a_crash(tmp_path: Path) -> None:
    done = _gofer("--help", home=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "COMMAND \\u2026" in done.stdout


@pytest.mark.parametrize("words", [["--color", "always", "frobnicate"], ["q", "--color=always", "absent"]])
def test_color_always_colours_errors_in_a_file(words: list[str], tmp_path: Path) -> None:
    assert "\x1b[31merror:\x1b[0m" in _gofer(*words, home=tmp_path).stderr


def test_color_is_in_the_help_of_gofer_alone(tmp_path: Path) -> None:
    assert "--color WHEN" in _gofer("--help", home=tmp_path).stdout
    assert "--color" not in _gofer("list", "runs", "--help", home=tmp_path).stdout
