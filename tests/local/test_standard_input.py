"""Standard input: sent along when asked for, and otherwise not touched."""

from __future__ import annotations

import subprocess

from home import Done, Home

from gofer.text import quote_command


def shell(home: Home, script: str, *, stdin: bytes = b"") -> Done:
    """A script of bash in the project; `gofer` is the command line of this home."""
    prelude = f'gofer() {{ {quote_command(home.argv())} "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-c", prelude + script],
        cwd=home.folder,
        env=home.environ,
        input=stdin,
        capture_output=True,
        timeout=300,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


_HEREDOC = """\
cd exp
gofer submit -f --retries 1 --stdin python - <<'E'
import os; print(os.listdir())
raise SystemExit(3)
E
"""


def test_input_goes_to_rank_0_and_again_with_resubmit(home: Home) -> None:
    done = shell(home, "printf 'a\\nü\\n' | gofer submit -f --stdin --no-code cat")
    assert (done.status, done.out) == (0, "a\nü\n"), done.err
    assert "not sent" not in done.err
    run = home.gofer("resubmit", "-Q", "last").out.split()[0]
    home.wait(run)
    assert home.log(run) == "a\nü\n"
    # A program from a heredoc, with code, in a folder below; every attempt reads from the beginning.
    home.configure("")
    (home.folder / "exp").mkdir()
    (home.folder / "exp" / "x").touch()
    done = shell(home, _HEREDOC)
    assert done.status == 3
    (run,) = {one["id"] for one in home.wait("last")}
    assert len(home.view(run)["attempts"]) == 2
    assert "['x']" in home.log(run)


def test_input_of_several_processes_and_of_an_array(home: Home) -> None:
    words = "gofer submit -Q --wait --stdin"
    run = shell(home, f"echo in | {words} --no-code --procs 2 sh -c 'echo got: $(cat)'").out.strip()
    assert home.log(run, "--rank", "0") == "got: in\n"
    assert home.log(run, "--rank", "1") == "got:\n"
    run = shell(home, f"umask 002; echo in | {words} --each n=1,2 sh -c 'echo {{n}} $(cat)'").out.strip()
    assert home.log(f"{run}-0") == "1 in\n"
    assert home.log(f"{run}-1") == "2 in\n"


def test_a_loop_keeps_its_list_and_is_reported_once(home: Home) -> None:
    (home.folder / "list").write_text("1\n2\n3\n")
    loop = "while read x; do gofer submit --no-code echo $x; done"
    for script in (f"{loop} < list", f"cat list | {loop}"):
        done = shell(home, script)
        assert len(done.out.splitlines()) == 3, done.err
        assert done.err.count("standard input was neither read nor sent") == 1
    done = shell(home, "gofer submit --no-code -f python - <<'E'\nprint(1)\nE")
    assert "`gofer submit --stdin …` sends it to the command" in done.err
    assert "standard input" not in home.gofer("submit", "--no-code", "true").err


def test_too_much_input_is_refused_before_anything_is_sent(home: Home) -> None:
    done = shell(home, "head -c 16777217 /dev/zero | gofer submit --stdin --no-code cat")
    assert done.status == 2
    assert "`--stdin` sends at most 16.0 MiB" in done.err
    assert not list((home.store / "runs").glob("*"))


def test_process_substitution_is_refused(home: Home) -> None:
    for words in ("cat <(echo x)", "cat --file=<(echo x)"):
        done = shell(home, f"gofer submit --no-code {words}")
        assert done.status != 0
        assert "is a file of this shell, made by `<(…)`" in done.err
        assert "`gofer submit bash -c 'COMMAND <(…)'`" in done.err
    assert shell(home, "gofer submit --no-code -f bash -c 'cat <(echo x)'").out == "x\n"
