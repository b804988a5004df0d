"""`gofer logs` of several logs, and of the lines that match a pattern, as a process."""

from __future__ import annotations

import json

from home import Home

RANKS = "echo first $RANK; sleep 0.2; echo second $RANK; exit $RANK"


def test_all_ranks_whole_followed_and_filtered(home: Home) -> None:
    run = home.submit("--procs", "2", "sh", "-c", RANKS)
    followed = home.gofer("logs", "-f", run, "--ranks", "all")
    lines = [f"[{rank}] {word} {rank}" for rank in (0, 1) for word in ("first", "second")]
    assert sorted(followed.out.splitlines()) == lines
    assert home.log(run, "--rank", "all").splitlines() == lines
    assert home.log(run, "--rank", "all", "--tail", "1").splitlines() == lines[1::2]
    assert home.log(run, "--rank", "all", "--grep", "^f.*1$").splitlines() == ["[1] first 1"]
    assert home.log(run, "--rank", "1", "--grep", "sec").splitlines() == ["second 1"]


def test_lines_that_do_not_match_and_odd_options(home: Home) -> None:
    run = home.finish("echo", "up")["id"]
    nothing = home.gofer("logs", run, "--grep", "down")
    assert (nothing.out, nothing.err) == ("", f"no line of {run[-6:]} matches `down`\n")
    assert home.gofer("logs", run, "--tail", "0").err == ""
    for words, part in (
        (("--rank", "some"), "`some` is neither a rank, a number from 0, nor `all`"),
        (("--rank", "-1"), "`-1` is neither a rank"),
        (("--grep", "f("), "`f(` is not a regular expression"),
        (("--grep", "f", "--json"), "leave out `--grep`"),
    ):
        assert part in home.gofer("logs", run, *words, status=2).err


def test_submit_f_of_an_array_shows_the_lines_of_its_rows(home: Home) -> None:
    words = ("--each", "i=1..4", "sh", "-c", "echo row {i}; test {i} != 3")
    done = home.gofer("submit", "-f", "--no-code", *words, status=1)
    lines = [f"[{row}] row {row + 1}" for row in range(4)]
    assert sorted(done.out.splitlines()) == lines
    assert " failed: 3 ok, 1 failed" in done.err
    assert home.log("last").splitlines() == lines
    assert home.log("last", "--row", "1-2", "-f").splitlines() == lines[1:3]
    listed = json.loads(home.log("last", "--row", "3", "--json"))
    assert [(log["row"], log["rank"], log["size"]) for log in listed] == [(3, 0, 6)]
    assert "`--row`" in home.gofer("logs", f"{listed[0]['key'][5:26]}-0", "--row", "1", status=2).err
