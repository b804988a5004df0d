"""`gofer monitor` without a run: all that is active, on a terminal and without."""

from __future__ import annotations

import json

from home import Home
from terminal import Terminal, screen


def start(home: Home, name: str) -> str:
    script = 'while [ ! -e "$GATE" ]; do sleep 0.05; done'
    words = ("--no-code", "--name", name, "-e", f"GATE={home.root}/{name}", "sh", "-c", script)
    return home.submit(*words)


def test_a_terminal_has_one_table_that_changes_in_place(home: Home) -> None:
    runs = {name: start(home, name)[-6:] for name in ("first", "second")}
    with Terminal(home.argv("monitor"), cwd=home.folder, env=home.environ) as terminal:
        terminal.until("2 running; Ctrl-C")
        (home.root / "first").touch()
        terminal.until("1 running, 1 succeeded; Ctrl-C")
        table = [line.split() for line in screen(terminal.shown) if line]
        assert table[1][:3] == ["ID", "NAME", "STATE"]
        assert [line[:3] for line in table[2:4]] == [
            [runs["second"], "second", "running"],
            [runs["first"], "first", "succeeded"],
        ]
        assert len(table) == 4 and terminal.shown.count("Ctrl-C") > 1
        terminal.interrupt()
        assert terminal.end() == 0
    assert home.view(runs["second"])["state"] == "running"
    (home.root / "second").touch()
    home.wait(runs["second"])


def test_without_a_terminal_each_change_is_a_line_until_all_have_ended(home: Home) -> None:
    run = start(home, "odd name")
    plain, as_json = home.start("monitor"), home.start("monitor", "--json")
    for process in (plain, as_json):
        assert process.stdout is not None
        first = process.stdout.readline().decode()
        assert run[-6:] in first
    (home.root / "odd name").touch()
    (shown, warned), (lines, _) = plain.communicate(timeout=120), as_json.communicate(timeout=120)
    assert shown.decode().splitlines()[-1].endswith(f"{run[-6:]}  odd name  succeeded  local")
    assert json.loads(lines.splitlines()[-1])["state"] == "succeeded"
    assert (warned, plain.returncode, as_json.returncode) == (b"", 0, 0)
    assert home.gofer("monitor").out == ""
    refused = home.gofer("monitor", "--json", run, status=2)
    assert "gofer wait --json" in refused.err
