"""What a command wrote in its folder is kept when its agent is killed, as at any other end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from home import Home, until

from gofer.node.kept import records

# Writes once; waits for the kill; an attempt that finds the files ends well.
SCRIPT = """
if [ -e out/model.pt ]; then cat out/model.pt config.txt; exit 0; fi
mkdir -p out; echo weights > out/model.pt; echo more >> config.txt; ln -s out/model.pt latest
echo written; sleep 1000
"""


def submit(home: Home, *options: str) -> str:
    (home.folder / "config.txt").write_text("first\n")
    (home.folder / "train.sh").write_text(SCRIPT)
    return home.gofer("submit", "-Q", *options, "sh", "train.sh").out.strip()


def kill_agent(home: Home, run: str) -> None:
    home.until_logged(run, "written")
    os.kill(home.agent(run), signal.SIGKILL)


def check_kept(home: Home, run: str) -> None:
    top = home.run_folder(run) / "files"
    found = {str(path.relative_to(top)) for path in top.rglob("*") if not path.is_dir()}
    assert found == {"out/model.pt", "config.txt", "latest"}
    assert (top / "config.txt").read_text() == "first\nmore\n"
    lines = (home.run_folder(run) / "attempts/1/node-0/files.jsonl").read_bytes()
    assert {one.path for one in records.decode_list(lines)} == found
    assert home.until_event(run, "kept")["files"] == 3


def check_nothing_left(home: Home) -> None:
    until(
        lambda: not any(path.is_file() for path in (home.queue_home / "copies").iterdir()), "the record to go"
    )
    until(lambda: not any((home.queue_home / "work").iterdir()), "the working copies to go")


def test_files_of_a_lost_run_are_kept(home: Home, tmp_path: Path) -> None:
    run = submit(home)
    kill_agent(home, run)
    assert home.wait(run)[0]["state"] == "lost"
    check_kept(home, run)
    home.gofer("extract", run, str(tmp_path / "home-again"))
    assert (tmp_path / "home-again/files/out/model.pt").read_text() == "weights\n"
    check_nothing_left(home)


def test_the_next_attempt_begins_with_the_files(home: Home) -> None:
    run = submit(home, "--retries", "1")
    kill_agent(home, run)
    seen = home.wait(run)[0]
    assert (seen["state"], len(seen["attempts"])) == ("succeeded", 2), seen
    assert home.log(run) == "weights\nfirst\nmore\n"
    check_nothing_left(home)


def test_files_are_kept_by_the_next_supervisor(home: Home) -> None:
    run = submit(home)
    home.until_logged(run, "written")
    agent, supervisor = home.agent(run), home.supervisor()
    assert supervisor is not None
    os.kill(agent, signal.SIGSTOP)  # it must not start another supervisor before it is killed
    os.kill(supervisor, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    assert home.wait(run)[0]["state"] == "lost"
    check_kept(home, run)


def test_files_of_a_row_are_kept_and_the_other_rows_have_their_own(home: Home) -> None:
    (home.folder / "train.sh").write_text('echo "row $1" > made; echo written; test $1 = 1 || sleep 1000')
    group = home.gofer("submit", "-Q", "--each", "n=0,1", "sh", "train.sh", "{n}").out.strip()
    kill_agent(home, f"{group}-0")
    home.wait(group)
    for row, state in ((0, "lost"), (1, "succeeded")):
        run = f"{group}-{row}"
        assert home.view(run)["state"] == state
        assert (home.run_folder(run) / "files/made").read_text() == f"row {row}\n"


def test_each_node_keeps_its_files(home: Home) -> None:
    nodes = 2
    (home.folder / "train.sh").write_text(
        'echo "node $NODE_RANK" > "made-$NODE_RANK"; echo written; sleep 1000'
    )
    run = home.gofer("submit", "-Q", "--nodes", str(nodes), "sh", "train.sh").out.strip()
    for node in range(nodes):
        home.until_logged(run, "written", rank=node)
    agents = [home.agent(run, node=node) for node in range(nodes)]
    for agent in agents:
        os.kill(agent, signal.SIGKILL)
    assert home.wait(run)[0]["state"] == "lost"
    kept = {path.name: path.read_text() for path in (home.run_folder(run) / "files").rglob("made-*")}
    assert kept == {"made-0": "node 0\n", "made-1": "node 1\n"}


def test_what_is_too_much_to_keep_stays_in_the_copy(home: Home) -> None:
    home.configure("job: {keep: 1KiB}\n")
    (home.folder / "train.sh").write_text("head -c 5000 /dev/zero > large; echo written; sleep 1000")
    run = home.gofer("submit", "-Q", "sh", "train.sh").out.strip()
    kill_agent(home, run)
    assert home.wait(run)[0]["state"] == "lost"
    copy = Path(str(home.until_event(run, "kept")["copy"]))
    assert (copy / "large").stat().st_size == 5000


def test_a_second_process_finishes_what_a_killed_one_began(home: Home) -> None:
    """As if the agent had been killed while it moved the files: one of them lies in `files/` already."""
    run = submit(home)
    home.until_logged(run, "written")
    (record,) = (home.queue_home / "copies").iterdir()
    copy = Path(json.loads(record.read_text())["code"])
    top = home.run_folder(run) / "files"
    (top / "out").mkdir(parents=True)
    (copy / "out/model.pt").rename(top / "out/model.pt")
    kill_agent(home, run)
    assert home.wait(run)[0]["state"] == "lost"
    lines = (home.run_folder(run) / "attempts/1/node-0/files.jsonl").read_bytes()
    assert {one.path for one in records.decode_list(lines)} >= {"out/model.pt", "config.txt", "latest"}
    assert (top / "out/model.pt").read_text() == "weights\n"
