"""A secret reaches the command, and nothing else that anybody could read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from home import Home, until

# No token of anything; what the search below looks for.
CANARY = "canary-5f1d3c-not-a-real-secret"


def store_secret(home: Home) -> None:
    done = subprocess.run(
        home.argv("secret", "set", "token"), input=CANARY.encode(), cwd=home.folder, env=home.environ,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert CANARY.encode() not in done.stdout + done.stderr


def places(home: Home) -> set[str]:
    """Every file under the home, and under the project, that holds the canary or its JSON or base64 forms."""
    found = set()
    for root in (home.path, home.folder):
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder) / name
                with suppress(FileNotFoundError):  # removed meanwhile
                    if path.is_file() and CANARY.encode() in path.read_bytes():
                        found.add(str(path.relative_to(home.root)))
    return found


def test_a_secret_is_in_no_record_log_ledger_queue_or_command_line(home: Home) -> None:
    store_secret(home)
    gate = home.root / "gate"
    hold = f"until [ -e {gate} ]; do sleep 0.05; done"
    script = f'test "$TOKEN" = "$(cat {home.root}/expected)" && echo same; {hold}'
    (home.root / "expected").write_text(CANARY)
    run = home.submit("-e", "TOKEN=${secret:token}", "--retries", "1", "sh", "-c", script)
    home.until_logged(run, "same")
    (sealed,) = [home.root / place for place in places(home) if place != "home/secrets.json"]
    assert sealed.parent.name == "sealed"
    assert sealed.stat().st_mode & 0o777 == 0o600
    # What `ps` shows to everybody.
    assert [words for words in home.processes().values() if CANARY in words] == []
    shown = (
        home.gofer("q", run).out
        + home.gofer("q", "--json", run).out
        + home.gofer("list", "runs", "--json").out
    )
    shown += home.gofer("submit", "--no-code", "--dry-run", "-e", "TOKEN=${secret:token}", "true").out
    shown += home.gofer("config", "show").out
    assert CANARY not in shown
    gate.touch()
    assert home.wait(run)[0]["state"] == "succeeded"
    until(lambda: places(home) == {"home/secrets.json"}, "the sealed values to go")
    assert json.loads((home.run_folder(run) / "run.json").read_text())["job"]["env"] == {
        "TOKEN": "${secret:token}"
    }


def test_the_sealed_values_of_a_run_that_is_aborted_or_lost_go_too(home: Home) -> None:
    store_secret(home)
    runs = [home.submit("-e", "TOKEN=${secret:token}", "sleep", "1000") for _ in range(2)]
    agent = home.agent(runs[0])
    home.gofer("abort", runs[1])
    os.kill(agent, signal.SIGKILL)
    assert home.wait(runs[0])[0]["state"] == "lost"
    until(lambda: places(home) == {"home/secrets.json"}, "the sealed values to go")


def test_a_retry_under_another_supervisor_still_has_the_secret(home: Home) -> None:
    store_secret(home)
    script = f'[ "$TOKEN" = {CANARY} ] || exit 9; [ "$GOFER_ATTEMPT" = 2 ] || sleep 1000'
    run = home.submit("-e", "TOKEN=${secret:token}", "--retries", "1", "sh", "-c", script)
    agent = home.agent(run)
    os.kill(until(lambda: home.supervisor() or 0, "its supervisor"), signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    assert home.wait(run)[0]["exit_code"] == 0


def test_a_resubmitted_run_looks_its_secrets_up_again(home: Home) -> None:
    store_secret(home)
    run = home.finish("-e", "TOKEN=${secret:token}", "sh", "-c", 'printf %s "$TOKEN" | wc -c')
    again = home.gofer("resubmit", "-Q", run["id"]).out.strip()
    home.wait(again)
    assert home.log(again) == home.log(run["id"]) == f"{len(CANARY)}\n"


def test_every_row_of_an_array_has_the_secret(home: Home) -> None:
    store_secret(home)
    group = home.submit(
        "-e", "TOKEN=${secret:token}", "--each", "x=1,2,3", "sh", "-c", 'printf %s "$TOKEN" | wc -c'
    )
    home.gofer("wait", "-Q", group)
    assert [home.log(f"{group}-{row}") for row in range(3)] == [f"{len(CANARY)}\n"] * 3
    until(lambda: places(home) == {"home/secrets.json"}, "the sealed values to go")


def test_a_secret_that_is_not_there_is_refused_before_anything_is_written(home: Home) -> None:
    done = home.gofer("submit", "--no-code", "-e", "TOKEN=${secret:tokne}", "true", status=None)
    assert done.status in (1, 2)
    assert "tokne" in done.err
    assert "hint: " in done.err
    assert not list(home.path.glob("store/runs/*"))
    assert not list(home.path.glob("engine/*/seal*/*"))
    assert json.loads(home.gofer("list", "runs", "--json").out) == []


def test_a_command_that_prints_its_secret_shows_stars(home: Home) -> None:
    store_secret(home)
    script = 'echo "token $TOKEN" ; echo "$TOKEN" >&2; exit 3'
    words = ("submit", "--no-code", "-e", "TOKEN=${secret:token}", "sh", "-c", script)
    followed = home.gofer(words[0], "-f", *words[1:], status=3)
    assert f"token {'*' * len(CANARY)}\n" in followed.out
    shown = [followed, *(home.gofer(*one) for one in (["logs", "last"], ["q", "last"], ["why", "last"]))]
    shown += [
        home.gofer("q", "--json", "last"),
        home.gofer("logs", "-f", "last"),
        home.gofer("logs", "--tail", "1", "last"),
    ]
    assert [one for one in shown if CANARY in one.out + one.err] == []
    held = {place for place in places(home) if not place.endswith(("rank-0.log", "secrets.json"))}
    assert held == set(), "of the run folder, only the log that the command wrote itself holds it"


def test_values_of_a_secret_file_are_masked_in_all_that_gofer_prints_of_a_log(home: Home) -> None:
    (home.folder / ".env").write_text(f"export TOKEN='{CANARY}'\nMODE=fast\n")
    script = f'. ./.env; test "$TOKEN" = {CANARY} && echo "$MODE: got $TOKEN"; exit 3'
    (home.folder / "show.sh").write_text(script)
    run = home.gofer("submit", "-Q", "--include", ".env", "sh", "show.sh").out.strip()
    assert home.wait(run)[0]["exit_code"] == 3
    elsewhere = home.root / "elsewhere"
    elsewhere.mkdir()
    masked = f"fast: got {'*' * len(CANARY)}\n"
    for words in (["logs", run], ["logs", "-f", run], ["q", run], ["why", run]):
        shown = home.gofer(*words, cwd=elsewhere, status=None).out
        assert masked in shown, words
        assert CANARY not in shown
    record = json.loads((home.run_folder(run) / "attempts/1/node-0/exit.json").read_text())
    assert masked.strip() in json.dumps(record)
    assert CANARY not in json.dumps(record)


def test_the_lines_of_a_secret_reach_no_record_and_no_terminal(home: Home, tmp_path: Path) -> None:
    """`q --lines` and `why` show the end of a log, which may begin in the middle of a key."""
    lines = [f"{CANARY}-{number}" for number in range(4)]
    key = tmp_path / "key"
    key.write_text("\n".join(lines) + "\n")
    words = ("submit", "-Q", "--no-code", "-e", f"KEY=${{file:{key}}}", "sh", "-c", 'echo "$KEY"; exit 3')
    run = home.gofer(*words).out.strip()
    home.wait(run)
    for shown in (
        ["q", "--lines", "2", run],
        ["why", run],
        ["logs", "--tail", "1", run],
        ["q", "--json", run],
    ):
        assert CANARY not in home.gofer(*shown, status=None).out, shown
    assert CANARY not in (home.run_folder(run) / "attempts/1/node-0/exit.json").read_text()
