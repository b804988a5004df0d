"""`gofer logs` of several logs, and of the lines that match a pattern, as a process."""

from __future__ import annotations

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
