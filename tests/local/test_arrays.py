"""Arrays: one group, one record, rows that are runs; ten thousand of them cost nothing until they start."""

from __future__ import annotations

import json
import os
from typing import Any

from home import Home, until

CORES = len(os.sched_getaffinity(0))


def rows_of(home: Home, group: str) -> list[dict[str, Any]]:
    listed = json.loads(home.gofer("list", "runs", "--all", "--filter", f"group={group}", "--json").out)
    return sorted(listed, key=lambda row: row["row"])


def test_every_combination_of_values_is_a_row(home: Home) -> None:
    group = home.submit(
        "--each", "lr=0.1,0.01", "--each", "seed=1..3", "--name", "sweep",
        "sh", "-c", 'echo "{lr} {seed} $GOFER_ARG_LR $GOFER_ARG_SEED"; echo x > "$GOFER_OUTPUT_DIR/x"',
    )  # fmt: skip
    home.gofer("wait", "-Q", group)
    rows = rows_of(home, group)
    wanted = [(lr, seed) for lr in ("0.1", "0.01") for seed in "123"]
    assert [row["id"] for row in rows] == [f"{group}-{number}" for number in range(6)]
    assert [(row["args"]["lr"], row["args"]["seed"]) for row in rows] == wanted
    assert [home.log(row["id"]) for row in rows] == [f"{lr} {seed} {lr} {seed}\n" for lr, seed in wanted]
    assert [row["command"][2].split()[1] for row in rows] == [f'"{lr}' for lr, _ in wanted]
    assert {row["group"] for row in rows} == {group}
    whole = home.view(group)
    assert (whole["kind"], whole["state"], whole["rows"]) == ("group", "succeeded", 6)
    assert whole["counts"] == {"succeeded": 6}
    # One record for all of them.
    assert [path.parent.name for path in home.store.glob("runs/*/run.json")] == [group]


def test_a_table_is_a_row_each(home: Home) -> None:
    table = home.folder / "grid.csv"
    table.write_text('name,weird value\n"a, b",$HOME\nplain,"two ""quotes"""\n')
    done = home.gofer("submit", "--no-code", "--array", str(table), "printf", "%s|", "{name}", status=None)
    assert done.status == 2  # a column's name must be one that a variable can have
    table.write_text('name,value\n"a, b",$HOME\nplain,"two ""quotes"""\n')
    group = home.submit("--array", str(table), "printf", "%s|", "{name}", "{value}", "{{name}}")
    home.gofer("wait", "-Q", group)
    assert home.log(f"{group}-0") == "a, b|$HOME|{name}|"
    assert home.log(f"{group}-1") == 'plain|two "quotes"|{name}|'


def test_values_are_data_and_never_shell(home: Home) -> None:
    evil = "$(touch evil); `touch evil`; ' \" && touch evil"
    table = home.folder / "evil.jsonl"
    table.write_text(json.dumps({"value": evil}) + "\n" + json.dumps({"value": "{value}"}) + "\n")
    group = home.submit("--array", str(table), "printf", "%s", "{value}")
    home.gofer("wait", "-Q", group)
    assert [home.log(f"{group}-{row}") for row in range(2)] == [evil, "{value}"]


def test_the_group_fails_when_a_row_does_and_says_which(home: Home) -> None:
    group = home.submit("--each", "x=0,1,2,3", "sh", "-c", "echo row {x}; exit {x}")
    assert home.gofer("wait", group, status=3).out == f"{group} failed\n"
    whole = home.view(group)
    assert whole["counts"] == {"succeeded": 1, "failed": 3}
    text = home.gofer("q", group).out
    assert f"{group.split('-')[-1]}-3" in text
    fetched = {path.name for path in (home.folder / "assets" / group).iterdir()}
    assert fetched == {"1", "2", "3", ".gitignore"}


def test_only_what_failed_is_run_again(home: Home) -> None:
    """Known from a look of its own: nobody has asked for the state since the rows ended."""
    group = home.submit(
        "--each", "x=0,1,2,3", "sh", "-c", f"[ -e {home.root}/mended ] || exit $(( {{x}} % 2 ))"
    )
    until(lambda: not home.open_runs(), "the rows to end")
    (home.root / "mended").touch()
    again = home.gofer("resubmit", "--failed", "-Q", group).out.strip()
    home.gofer("wait", "-Q", again)
    assert [row["args"] for row in rows_of(home, again)] == [{"x": "1"}, {"x": "3"}]
    assert home.view(again)["resubmit_of"] == group
    done = home.gofer("resubmit", "--failed", again, status=2)
    assert done.err.startswith(f"error: no row of {again} has failed\nhint: ")
    one = home.gofer("resubmit", "-Q", f"{again}-1").out.strip()
    home.gofer("wait", "-Q", one)
    assert " succeeded with no output" in home.gofer("logs", one).err
    assert "is a group of 1 run: 1 ok" in home.gofer("why", one).out


def test_running_failed_rows_again_leaves_the_others_running(home: Home) -> None:
    gate = home.root / "gate"
    group = home.submit(
        "--each", "x=0,1", "sh", "-c", f"[ {{x}} = 0 ] && exit 5; until [ -e {gate} ]; do sleep 0.05; done"
    )
    until(lambda: home.view(f"{group}-0")["state"] == "failed", "the first row to fail")
    home.until_event(f"{group}-1", "started")
    again = home.gofer("resubmit", "--failed", "-Q", group).out.strip()
    assert home.wait(f"{again}-0")[0]["exit_code"] == 5
    assert home.view(f"{group}-1")["state"] == "running"
    gate.touch()
    assert home.wait(f"{group}-1")[0]["state"] == "succeeded"


def test_one_row_can_be_stopped_and_then_the_rest(home: Home) -> None:
    group = home.submit("--each", "x=0..3", "sleep", "1000")
    home.until_event(f"{group}-0", "started")
    assert home.gofer("abort", f"{group}-0").out == f"{group}-0 cancelled\n"
    assert {row["state"] for row in rows_of(home, group)[1:]} <= {"queued", "starting", "running"}
    assert home.gofer("abort", group).out == f"{group} cancelled\n"
    assert {row["state"] for row in rows_of(home, group)} == {"cancelled"}


def test_retries_are_each_rows_own(home: Home) -> None:
    group = home.submit(
        "--retries", "1", "--each", "x=0,1", "sh", "-c", '[ {x} = 0 ] || [ "$GOFER_ATTEMPT" = 2 ]'
    )
    home.gofer("wait", "-Q", group)
    assert [len(row["attempts"]) for row in rows_of(home, group)] == [1, 2]


def test_ten_thousand_rows_wait_without_files_or_processes(home: Home) -> None:
    gate = home.root / "gate"
    first = home.submit("--cpus", str(CORES), "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    home.until_event(first, "started")
    before = len(home.processes())
    group = home.submit("--each", "x=1..10000", "echo", "{x}")
    assert len(home.processes()) <= before + 1  # the sleeps of the first run come and go
    assert home.view(group)["counts"] == {"queued": 10_000}
    assert sorted(path.name for path in home.store.glob("runs/*")) == sorted([first, group])
    assert [path.name for path in home.run_folder(group).iterdir()] == ["run.json"]
    assert len(list((home.queue_home / "work").iterdir())) <= 1
    assert home.gofer("abort", group).out == f"{group} cancelled\n"
    assert home.view(group)["counts"] == {"cancelled": 10_000}
    gate.touch()
    assert home.wait(first)[0]["state"] == "succeeded"
    assert sorted(path.name for path in home.store.glob("runs/*")) == sorted([first, group])


def test_two_hundred_rows_all_run_once(home: Home) -> None:
    counter = home.root / "counter"
    group = home.submit("--each", "x=1..200", "sh", "-c", f"echo {{x}} >> {counter}")
    home.gofer("wait", "-Q", group)
    assert sorted(map(int, counter.read_text().split())) == list(range(1, 201))
    assert home.view(group)["counts"] == {"succeeded": 200}


def test_a_placeholder_without_a_column_is_refused(home: Home) -> None:
    done = home.gofer("submit", "--no-code", "--each", "lr=1,2", "echo", "{lrr}", status=2)
    assert "lrr" in done.err
    assert "did you mean" in done.err
    assert json.loads(home.gofer("list", "runs", "--json").out) == []


def test_a_column_that_nothing_uses_is_named(home: Home) -> None:
    (home.folder / "reads.sh").write_text("echo $GOFER_ARG_SEED\n")
    plain = ["submit", "--dry-run", "--each", "lr=1,2", "--each", "seed=1"]
    warned = home.gofer(*plain, "sleep", "{lr}").err
    assert warned.startswith(
        "warning: the command does not use `{seed}`; a program finds the value as $GOFER_ARG_SEED\n"
    )
    assert "does not use `{lr}`, `{seed}`" in home.gofer(*plain, "true").err
    for words in (["echo", "{lr}{seed}"], ["sh", "reads.sh"], ["sh", "-c", "echo $GOFER_ARG_SEED {lr}"]):
        assert "does not use" not in home.gofer(*plain, *words).err


def test_a_row_that_wrote_nothing_leaves_no_files_and_is_known_all_the_same(home: Home) -> None:
    marks = home.folder / "marks"
    marks.mkdir()
    again = f'test -e "{marks}/{{does}}" || {{ touch "{marks}/{{does}}"; exit 1; }}'
    group = home.submit(
        "--each", "does=nothing,speaks,keeps,retries,fails", "--retries", "1",
        "sh", "-c",
        'case {does} in speaks) echo hello;; keeps) echo x > "$GOFER_OUTPUT_DIR/x";; '
        f"retries) {again};; fails) exit 3;; esac",
    )  # fmt: skip
    home.gofer("wait", "-Q", group, status=3)

    def folders() -> list[str]:
        return sorted(path.name for path in home.store.glob(f"runs/{group}-*"))

    until(lambda: len(folders()) == 4, "the bare folder is gone")
    assert folders() == [f"{group}-{row}" for row in (1, 2, 3, 4)]
    before = rows_of(home, group)
    assert [row["state"] for row in before] == ["succeeded"] * 4 + ["failed"]
    home.gofer("ledger", "rebuild")
    after = rows_of(home, group)
    times = ("started_at", "ended_at", "exit_code", "attempts")
    assert [[row[key] for key in times] for row in after] == [[row[key] for key in times] for row in before]
    assert "no output" in home.gofer("logs", f"{group}-0").err
