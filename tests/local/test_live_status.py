"""What `-f`, `--wait`, `wait`, `logs -f` and `monitor` show while a run waits, on a terminal and without."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator

import pytest
from home import Home
from terminal import Terminal, screen

HELD = "queued"
REASON = "it needs 2 GPUs (0 of 4 free); held by "
CLEARED = "\r\x1b[K"


@pytest.fixture
def held(home: Home) -> Iterator[tuple[Home, str]]:
    """A home whose GPUs are in use until `gate`, and a run that waits for two of them."""
    home.configure("targets: {box: {kind: local, gpus: 4}}\ntarget: box\n")
    script = "echo up; while [ ! -e $GATE ]; do sleep 0.05; done"
    holder = home.submit("-n", "4", "--single", "-e", f"GATE={home.root}/gate", "sh", "-c", script)
    home.until_logged(holder, "up")
    yield home, home.submit("-n", "2", "--single", "echo", "hi")
    gate(home)


def gate(home: Home) -> None:
    (home.root / "gate").touch()


def short(run: str) -> str:
    return run.rpartition("-")[2]


def until_reason(process: subprocess.Popen[bytes]) -> str:
    """What a command wrote to stderr up to the line with the reason."""
    assert process.stderr is not None
    lines = [""]
    while REASON not in lines[-1]:
        lines.append(process.stderr.readline().decode())
        assert lines[-1], "it ended without the reason"
    return "".join(lines)


@pytest.mark.parametrize("verb", [("wait",), ("logs", "-f"), ("monitor",)], ids=lambda words: words[0])
def test_a_terminal_has_one_line_that_is_cleared(held: tuple[Home, str], verb: tuple[str, ...]) -> None:
    home, run = held
    with Terminal(home.argv(*verb, run), cwd=home.folder, env=home.environ) as terminal:
        shown = terminal.until(REASON)
        assert f"{short(run)} {HELD} " in shown and "\n" not in shown
        gate(home)
        terminal.end()
    _, _, after = terminal.shown.rpartition(REASON)
    assert CLEARED in after
    assert ("hi\r\n" in after) == (verb != ("wait",))
    assert after.index(CLEARED) < after.index(short(run) if verb == ("wait",) else "hi")


@pytest.mark.parametrize("options", [("-f",), ("--wait",)], ids=str)
def test_without_a_terminal_the_reason_is_one_line(held: tuple[Home, str], options: tuple[str, ...]) -> None:
    home, first = held
    process = home.start("submit", "--no-code", "-n", "2", "--single", *options, "echo", "hi")
    before = until_reason(process)
    gate(home)
    rest, err = process.communicate(timeout=120)
    text = before + err.decode()
    assert text.count(REASON) == 1 and "\x1b" not in text and "1 run ahead" in text
    assert "hi" in rest.decode() or options == ("--wait",)
    home.wait(first)


def test_json_and_quiet_say_nothing(held: tuple[Home, str]) -> None:
    home, run = held
    sent = ("submit", "--no-code", "-n", "2", "-Q", "--wait", "true")
    silent = [home.start(*words) for words in (("wait", "--json", run), ("wait", "-Q", run), sent)]
    with home.start("wait", run) as loud:
        until_reason(loud)
        gate(home)
        loud.communicate(timeout=120)
    assert [process.communicate(timeout=120)[1] for process in silent] == [b"", b"", b""]


def test_a_group_counts_its_runs_and_names_the_first_that_failed(home: Home) -> None:
    home.configure("targets: {box: {kind: local, gpus: 2}}\ntarget: box\n")
    script = f"[ {{i}} != 1 ] || exit 3; while [ ! -e {home.root}/gate ]; do sleep 0.05; done"
    done = home.gofer("submit", "--no-code", "-n", "1", "--each", "i=0..3", "sh", "-c", script)
    group, name = done.out.strip(), short(done.out.strip())
    assert f"{group} (4 runs: {name}-0 … {name}-3) to `box`" in done.err
    with Terminal(home.argv("wait", group), cwd=home.folder, env=home.environ) as terminal:
        assert f"{name} 1/4 done, 1 failed, 2 running, ETA " in terminal.until("ETA ")
        gate(home)
        assert terminal.end() == 3
    assert (
        f"{name}-1 (i=1) failed first: exited with 3; `gofer logs {name}-1` prints its log" in terminal.shown
    )


def test_a_terminal_shows_the_id_once(home: Home) -> None:
    (home.folder / "a.py").write_text("pass\n")
    words = ("submit", "--wait", "true")
    for verb, shows_code in ((words, True), (words, False)):
        with Terminal(home.argv(*verb), cwd=home.folder, env=home.environ) as terminal:
            assert terminal.end() == 0
        run = home.view("last")["id"]
        assert terminal.shown.count(run) == 1
        assert ("code: " in terminal.shown) == shows_code
    with Terminal(home.argv("submit", "-Q", "true"), cwd=home.folder, env=home.environ) as terminal:
        assert terminal.end() == 0
    assert terminal.shown.strip() == home.view("last")["id"]
    home.wait("last")


@pytest.mark.parametrize("verb", [("wait",), ("logs", "-f"), ("monitor",)], ids=lambda words: words[0])
def test_ctrl_c_names_what_can_be_done(held: tuple[Home, str], verb: tuple[str, ...]) -> None:
    home, run = held
    with Terminal(home.argv(*verb, run), cwd=home.folder, env=home.environ) as terminal:
        terminal.until(REASON)
        terminal.interrupt()
        assert terminal.end() == 130
    hint = f"the run continues; `gofer logs -f {short(run)}` follows it again"
    assert hint in terminal.shown.rpartition(CLEARED)[2]
    gate(home)
    home.wait(run)


def test_the_line_is_gone_before_the_first_line_of_the_log(home: Home) -> None:
    """The reader of a pipe, such as `tee`, writes to the same terminal, and gofer cannot erase that."""
    gate = home.root / "gate"
    setup = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    run = home.submit("--no-code", "--setup", setup, "sh", "-c", "echo a; sleep 2; echo b")
    command = f"{shlex.join(home.argv('monitor', run))} | cat"
    with Terminal(["sh", "-c", command], cwd=home.folder, env=home.environ) as terminal:
        terminal.until(f"{short(run)} starting ")
        gate.touch()
        terminal.end()
    # What `cat` and gofer write at the same time has no order.
    assert sorted(screen(terminal.shown)) == sorted(["a", "b", f"{short(run)} succeeded", ""])


SETUP = "printf 'get 1\\rget 2\\r'; echo; echo made; while [ ! -e $GATE ]; do sleep 0.05; done"


@pytest.mark.parametrize("verb", [("submit", "-f"), ("submit", "--wait"), ("wait",), ("logs", "-f")], ids=str)
def test_a_terminal_shows_the_lines_of_the_set_up_with_a_label(home: Home, verb: tuple[str, ...]) -> None:
    words = ("--no-code", "-e", f"GATE={home.root}/gate", "--setup", SETUP, "echo", "hi")
    argv = home.argv(*verb, *words) if verb[0] == "submit" else home.argv(*verb, home.submit(*words))
    with Terminal(argv, cwd=home.folder, env=home.environ) as terminal:
        terminal.until("[setup] made")
        gate(home)
        assert terminal.end() == 0
    lines = [line for line in screen(terminal.shown) if not line.startswith("submitted")]
    assert lines[:2] == ["[setup] get 2", "[setup] made"]
    assert ("hi" in lines[2:]) == ("-f" in verb)
    assert not any("starting" in line for line in lines)


def test_without_a_terminal_a_wait_shows_few_lines_of_the_set_up(home: Home) -> None:
    setup = "for i in $(seq 100); do echo line $i; sleep 0.02; done"
    done = home.gofer("submit", "--no-code", "--wait", "--setup", setup, "true")
    assert 1 <= done.err.count("[setup] line ") < 50
    quiet = home.gofer("submit", "--no-code", "--wait", "-Q", "--setup", setup, "true")
    assert quiet.err == ""
