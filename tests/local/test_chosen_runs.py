"""Commands on the runs that a filter chooses: questions, refusals and results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from home import Home, until
from terminal import Terminal


def _ended(done_out: str) -> list[str]:
    return [line.split()[1] for line in done_out.splitlines()]


def _lives(home: Home, run: str) -> bool:
    return home.view(run)["state"] in ("queued", "starting", "running")


def _typed(home: Home, words: Sequence[str], answer: str, choice: str = "[y/N] ") -> tuple[int, str]:
    """What a person sees who types `answer` at the question; the exit status."""
    plain = {**home.environ, "NO_COLOR": "1"}
    with Terminal(home.argv(*words), cwd=home.folder, env=plain) as terminal:
        terminal.until(choice)
        terminal.type(answer)
        return terminal.end(), terminal.shown


def test_abort_of_many_asks_and_enter_means_no(home: Home) -> None:
    home.finish("--tag", "s=1", "true")
    first, second = (home.submit("--tag", "s=1", "sleep", "600") for _ in range(2))
    rows = home.submit("--each", "i=1,2", "sleep", "60{i}")
    other = home.submit("--tag", "s=2", "sleep", "600")

    refused = home.gofer("abort", "--filter", "tag.s=1", status=2)
    assert refused.err.splitlines() == [
        "error: 2 runs would be stopped, and no terminal can confirm it",
        "hint: add `--yes`",
    ]
    status, shown = _typed(home, ["abort", "--filter", "tag.s=1"], "\n")
    assert status == 1 and "stop 2 runs? [y/N]" in shown and "nothing was stopped" in shown
    assert all(run[-6:] in shown for run in (first, second)) and other[-6:] not in shown
    until(lambda: home.view(first)["state"] == "running", "it runs")

    status, shown = _typed(home, ["abort", "--grace", "0", "--filter", "tag.s=1"], "y\n")
    assert status == 0 and all(run[-6:] in shown.partition("y\r\n")[2] for run in (first, second))
    # A filter that chooses rows stops these rows, and not their array.
    one = home.gofer("abort", "--grace", "0", "--filter", f"group={rows[-6:]}", "--filter", "arg.i=2", "-y")
    assert one.out == f"{rows}-1 cancelled\n"
    assert all(_lives(home, run) for run in (f"{rows}-0", other))
    rest = home.gofer("abort", "--all", "--yes", "--grace", "0")
    assert sorted(rest.out.splitlines()) == sorted([f"{rows} cancelled", f"{other} cancelled"])
    again = home.gofer("abort", "--all")
    assert (again.out, again.err) == ("", "no run to stop: none that has not ended matches\n")


def test_a_filter_of_rows_never_stops_the_whole_array(home: Home) -> None:
    rows = home.submit("--each", "i=1..3", "sleep", "60{i}")
    # The array has no value `i`, so it meets this condition too.
    done = home.gofer("abort", "--grace", "0", "--filter", "arg.i!=1", "--yes", "--json")
    assert [run["id"] for run in json.loads(done.out)] == [f"{rows}-1", f"{rows}-2"]
    assert _lives(home, f"{rows}-0")
    home.gofer("abort", "--grace", "0", rows)


def test_tags_and_new_runs_of_many(home: Home) -> None:
    one, two = (home.finish("--name", f"a {word}", "sh", "-c", f"echo {word}")["id"] for word in ("b", "c"))
    chosen = ("--filter", "name~^a ")
    tagged = home.gofer("tag", *chosen, "good", "lr=0.1", "--remove", "none")
    assert tagged.out == f"{two}  good lr=0.1\n{one}  good lr=0.1\n"
    assert json.loads(home.gofer("tag", *chosen, "--json").out)[one] == {"good": "", "lr": "0.1"}
    status, shown = _typed(home, ["tag", *chosen, "bad"], "no\n")
    assert status == 1 and "tag 2 runs? [y/N]" in shown and "nothing was tagged" in shown
    assert home.gofer("tag", one).out.split() == ["good", "lr", "0.1"]

    assert "2 runs would be resubmitted" in home.gofer("resubmit", *chosen, status=2).err
    again = home.gofer("resubmit", "--yes", *chosen).out.split()
    assert sorted(home.log(run["id"]) for run in home.wait(*again)) == ["b\n", "c\n"]
    waited = home.gofer("wait", *chosen)
    assert _ended(waited.out) == ["succeeded"] * 4

    folder = Path("out of many")
    home.gofer("extract", "-Q", *chosen, str(folder))
    assert {path.name for path in (home.folder / folder).iterdir()} == {
        run[-6:] for run in (one, two, *again)
    }
    assert "add `--force`" in home.gofer("extract", *chosen, str(folder), status=2).err
    home.gofer("extract", "-Q", "--force", *chosen, str(folder))


def test_words_that_do_not_go_with_a_filter_are_refused(home: Home) -> None:
    run = home.finish("true")["id"]
    for verb in ("abort", "wait", "resubmit", "extract"):
        refused = home.gofer(verb, "--filter", "state=failed", run, "x", status=2)
        assert "names a run, and `--filter` chooses runs" in refused.err
    for words in (("wait",), ("resubmit",), ("tag", "x"), ("extract", "x")):
        refused = home.gofer(*words, "--filter", "tag.it's=no", status=2)
        assert refused.err.startswith("error: no run matches `--filter")
        (hint,) = refused.err.splitlines()[1:]
        assert "`gofer list runs --filter " in hint
    for words in (("wait",), ("resubmit",), ("tag",)):
        assert "no run was named" in home.gofer(*words, status=2).err
    assert "missing argument 'DIR'" in home.gofer("extract", run, status=2).err
    assert "missing argument 'DIR'" in home.gofer("extract", "--filter", "state=failed", status=2).err
    assert "did you mean `state`?" in home.gofer("abort", "--filter", "stat=failed", status=2).err


def test_resubmit_of_a_running_run_asks_and_enter_means_yes(home: Home) -> None:
    first = home.submit("sh", "-c", "echo up; exec sleep 600")
    home.until_logged(first, "up")
    for no in ("n\n", "\x04"):  # Ctrl-D is no answer
        status, shown = _typed(home, ["resubmit", first], no, "[Y/n] ")
        assert status == 1 and "nothing was resubmitted" in shown and _lives(home, first)
    status, shown = _typed(home, ["resubmit", first], "\n", "[Y/n] ")
    assert status == 0 and f"{first[-6:]} is running: stop it first? [Y/n]" in shown
    assert home.view(first)["state"] == "cancelled"
    second = home.view("last")["id"]
    assert f"resubmitted {first[-6:]} as {second} to `local`" in shown and shown.count(second) == 1
    third = home.gofer("resubmit", second)
    assert f"{second[-6:]} has not ended: it is stopped first\n" in third.err and "[Y/n]" not in third.err
    home.gofer("abort", "--grace", "0", third.out.strip())
    with Terminal(home.argv("resubmit", second), cwd=home.folder, env=home.environ) as terminal:
        assert terminal.end() == 0 and "[Y/n]" not in terminal.shown
    home.gofer("abort", "--all", "--yes", "--grace", "0")
