"""What a command writes beside itself is kept, whatever its end; every row has a folder of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from home import Home, until

from gofer.node.kept import records
from gofer.node.kept.records import KeptFile, KeptFiles


def with_code(home: Home, *words: str) -> dict[str, Any]:
    """A run with the code of the folder, to its end; its JSON."""
    done = home.gofer("submit", "-Q", "--wait", "--json", *words, status=None)
    assert done.out, done.err
    run: dict[str, Any] = json.loads(done.out)
    return run


def exit_record(home: Home, run_id: str, *, attempt: int = 1, node: int = 0) -> dict[str, Any]:
    path = home.run_folder(run_id) / "attempts" / str(attempt) / f"node-{node}" / "exit.json"
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def kept_of(home: Home, run_id: str, *, attempt: int = 1, node: int = 0) -> KeptFiles:
    found = records.decode_kept(exit_record(home, run_id, attempt=attempt, node=node))
    assert found is not None
    return found


def listed(home: Home, run_id: str, *, attempt: int = 1, node: int = 0) -> dict[str, KeptFile]:
    path = home.run_folder(run_id) / "attempts" / str(attempt) / f"node-{node}" / "files.jsonl"
    return {f"{one.place}/{one.path}": one for one in records.decode_list(path.read_bytes())}


def files_of(home: Home, run_id: str) -> dict[str, str]:
    """What lies in `files/` of the run."""
    top = home.run_folder(run_id) / "files"
    return {
        str(path.relative_to(top)): path.read_text()
        for path in sorted(top.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


WRITES = """
mkdir -p out-x outputs empty __pycache__ .venv/bin "wit h"
echo w > out-x/model.pt; echo o > outputs/x; echo ü > "wit h/ü"; echo more >> config.txt
touch __pycache__/a.pyc .venv/bin/python; echo s > .env; ln -s out-x/model.pt latest
truncate -s 10G sparse; printf '#!/bin/sh' > tool; chmod 750 tool
touch -d 2020-01-02T03:04:05Z out-x/model.pt
cp .env "$GOFER_OUTPUT_DIR/.env"
echo g > "$GOFER_OUTPUT_DIR/given"; mkfifo pipe; rm gone.txt; chmod 555 out-x
"""


def test_new_and_changed_files_are_kept_with_what_they_were(home: Home) -> None:
    for name in ("config.txt", "gone.txt", "outputs/old"):
        (home.folder / name).parent.mkdir(exist_ok=True)
        (home.folder / name).write_text("old\n")
    run = with_code(home, "sh", "-c", WRITES + "exit 3")
    assert (run["state"], run["exit_code"]) == ("failed", 3)
    top = home.run_folder(run["id"]) / "files"
    assert (top / "sparse").stat().st_blocks * 512 < 2**20
    (top / "sparse").unlink()  # which is not to be read
    assert files_of(home, run["id"]) == {
        "config.txt": "old\nmore\n",
        "out-x/model.pt": "w\n",
        "outputs/x": "o\n",
        "tool": "#!/bin/sh",
        "wit h/ü": "ü\n",
    }
    kept = kept_of(home, run["id"])
    assert (kept.files, kept.changed, kept.copy) == (7, 1, None)
    assert sorted(kept.left) == [
        ("$GOFER_OUTPUT_DIR/.env", "looks like a secret"),
        (".env", "looks like a secret"),
        ("pipe", "is neither a file nor a link"),
    ]
    assert os.listdir(home.run_folder(run["id"]) / "outputs") == ["given"]
    found = listed(home, run["id"])
    assert (found["files/latest"].kind, found["files/latest"].target) == ("l", "out-x/model.pt")
    assert (found["files/tool"].kind, found["files/tool"].mode) == ("x", 0o750)
    assert found["files/out-x/model.pt"].mtime_ns == 1577934245 * 10**9
    assert found["files/empty"].kind == "d"
    assert found["files/sparse"].size == 10 * 2**30 and found["files/sparse"].allocated is not None
    assert found["outputs/given"].size == 2
    assert not os.path.exists(home.queue_home / "work" / run["id"])


def test_what_is_written_again_with_the_same_bytes_is_not_kept(home: Home) -> None:
    """Test suites rewrite their expected results, and `touch` changes only a time."""
    for name in ("touched", "again", "other", "rewritten", "moved", "empty", "prog"):
        (home.folder / name).write_text("" if name == "empty" else "12345\n")
    (home.folder / "link").symlink_to("rewritten")
    (home.folder / "away").symlink_to("rewritten")
    words = """touch touched empty; echo 12345 > again; echo 54321 > other; rm rewritten
    echo 12345 > rewritten
    cp moved m; mv m moved; chmod +x prog; rm link away; ln -s rewritten link; ln -s here away"""
    run = with_code(home, "sh", "-c", words)
    assert files_of(home, run["id"]) == {"other": "54321\n"}
    assert set(listed(home, run["id"])) == {"files/other", "files/away"}
    assert kept_of(home, run["id"]).changed == 2
    # An attempt that puts back what the one before changed leaves nothing.
    words = "test $GOFER_ATTEMPT = 2 || { echo 99999 > again; exit 1; }; cat again; echo 12345 > again"
    run = with_code(home, "--retries", "1", "sh", "-c", words)
    assert (run["state"], files_of(home, run["id"])) == ("succeeded", {})
    assert home.log(run["id"]) == "99999\n"


def test_they_are_kept_at_a_time_limit_and_an_abort(home: Home) -> None:
    late = home.finish("--time-limit", "2s", "sh", "-c", "echo a > a; exec sleep 600")
    assert late["reason"] == "time-limit"
    assert files_of(home, late["id"]) == {"a": "a\n"}
    aborted = home.submit("sh", "-c", "trap 'echo last > b; exit 1' TERM; echo go; sleep 600 & wait")
    home.until_logged(aborted, "go")
    home.gofer("abort", aborted)
    home.wait(aborted)
    assert files_of(home, aborted) == {"b": "last\n"}


RESUMES = """
read n 2>/dev/null < ck/step || n=0
ls ck 2>/dev/null | tr '\\n' ' '; cat code.txt
mkdir -p ck; echo $((n + 1)) > ck/step; echo "attempt $GOFER_ATTEMPT" >> code.txt
touch ck/only-$n; rm -f ck/only-$((n - 1))
[ $n = 2 ] || exit 1
"""


def test_they_are_in_place_again_for_a_retry(home: Home) -> None:
    """Set-up makes its own files in every attempt, and they are not kept."""
    (home.folder / "code.txt").write_text("code\n")
    run = with_code(home, "--retries", "4", "--setup", "echo made > made-by-setup", "sh", "-c", RESUMES)
    assert (run["state"], len(run["attempts"])) == ("succeeded", 3)
    assert home.log(run["id"], "--attempt", "2") == "only-0 step code\nattempt 1\n"
    assert home.log(run["id"]) == "only-1 step code\nattempt 1\nattempt 2\n"
    assert files_of(home, run["id"]) == {
        "ck/step": "3\n",
        "ck/only-2": "",
        "code.txt": "code\nattempt 1\nattempt 2\nattempt 3\n",
    }
    assert kept_of(home, run["id"], attempt=3).changed == 1


def test_every_row_has_a_folder_of_its_own(home: Home) -> None:
    """Also the second row in one agent's copy, which the first has left without permission to write."""
    (home.folder / "cfg.txt").write_text("as sent\n")
    (home.folder / "package").mkdir()
    (home.folder / "package" / "code.py").write_text("code\n")
    script = (
        "cat cfg.txt package/code.py; find . | sort | tr '\\n' ' '; echo {s} > cfg.txt; touch mark{s}; "
        "rm package/code.py; mkdir {s}; sleep 0.2; cat cfg.txt; chmod 000 package; chmod 555 ."
    )
    group = home.gofer("submit", "-Q", "--wait", "--each", "s=1..7", "sh", "-c", script).out.strip()
    for row in range(7):
        found = ". ./cfg.txt ./package ./package/code.py "
        assert home.log(f"{group}-{row}") == f"as sent\ncode\n{found}{row + 1}\n"
        wanted = {"cfg.txt": f"{row + 1}\n", f"mark{row + 1}": ""}
        assert files_of(home, f"{group}-{row}") == wanted
    until(lambda: not os.path.exists(home.queue_home / "work" / group), "the copies to be removed")


def test_each_node_keeps_its_own_and_gets_it_back(home: Home) -> None:
    home.configure("targets: {local: {gpus: 4, gpus_per_node: 2}}\n")
    script = (
        'cat who 2>/dev/null; cat same 2>/dev/null; echo "node $NODE_RANK" > who; echo equal > same; '
        f"cd {home.root}; touch wrote-$NODE_RANK; "
        "until [ -e wrote-0 ] && [ -e wrote-1 ]; do sleep 0.05; done; "
        "[ $GOFER_ATTEMPT = 2 ]"
    )
    words = ["--nodes", "2", "-n", "4", "--procs", "1", "--retries", "1", "sh", "-c", script]
    run = home.finish(*words)
    assert run["state"] == "succeeded"
    assert files_of(home, run["id"]) == {"who": "node 0\n", "same": "equal\n", "node-1/who": "node 1\n"}
    top = home.run_folder(run["id"]) / "attempts" / "2"
    logs = [(top / f"node-{node}" / f"rank-{node}.log").read_text() for node in (0, 1)]
    assert logs == ["node 0\nequal\n", "node 1\nequal\n"]


def test_a_copy_that_nobody_may_write_is_removed(tmp_path: Path) -> None:
    """As root is not held by permissions, the capability to pass over them is dropped."""
    drop = "-dac_override,-dac_read_search,-fowner"
    prefix = ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}"] if os.getuid() == 0 else []
    home = Home(tmp_path, prefix=prefix)
    try:
        script = "mkdir -p a/b c; echo x > a/b/x; echo y > c/y; chmod 000 a/b; chmod 555 a .; chmod 000 c"
        run = home.finish("sh", "-c", script)
        assert files_of(home, run["id"]) == {"a/b/x": "x\n", "c/y": "y\n"}
        until(lambda: not os.path.exists(home.queue_home / "work" / run["id"]), "the copy to be removed")
    finally:
        home.close()


def test_what_passes_the_limit_stays_where_it_is(home: Home) -> None:
    """`./outputs` and what fits `outputs:` come home whatever their size; `prune` removes the rest later."""
    home.configure("job: {outputs: ['*.pt', ck/]}\n")
    script = (
        "mkdir ck outputs; echo c > ck/a; echo o > outputs/b; echo p > m.pt; head -c 3000 /dev/zero > big"
    )
    run = with_code(home, "--keep", "2k", "sh", "-c", script)
    assert files_of(home, run["id"]) == {"ck/a": "c\n", "outputs/b": "o\n", "m.pt": "p\n"}
    kept = kept_of(home, run["id"])
    assert kept.copy is not None and kept.files == 3
    copy = Path(kept.copy)
    assert (copy / "big").stat().st_size == 3000 and (copy / "gofer.yaml").exists()
    result = "the command wrote more beside the code than `keep` allows; the working copy stays in"
    assert home.log(run["id"]).endswith(f"{result} {copy}\n")
    removed = home.gofer("prune", "--dry-run", "--json").out
    assert "working copy" not in removed  # it is young
    none = with_code(home, "--keep", "none", "sh", "-c", script)
    assert (kept_of(home, none["id"]).files, kept_of(home, none["id"]).copy) == (3, None)
    assert kept_of(home, none["id"]).left == (("big", "more than may be kept"),)
    whole = with_code(home, "--keep", "4k", "sh", "-c", script)
    assert (kept_of(home, whole["id"]).files, kept_of(home, whole["id"]).copy) == (4, None)


def test_what_passes_the_limit_is_in_place_for_a_retry_too(home: Home) -> None:
    """What the last attempt wrote wins, and what it removed is gone, over three attempts."""
    script = (
        "read n 2>/dev/null < ck/step || n=0; ls ck 2>/dev/null | tr '\\n' ' '; mkdir -p ck; "
        "echo $((n + 1)) > ck/step; echo more >> ck/log; rm -f ck/big-*; ln -sf big-$n ck/latest; "
        "head -c 3000 /dev/zero > ck/big-$n; [ $n = 2 ]"
    )
    run = with_code(home, "--keep", "2k", "--retries", "3", "sh", "-c", script)
    assert (run["state"], len(run["attempts"])) == ("succeeded", 3)
    assert home.log(run["id"]).startswith("big-1 latest log step gofer: ")
    copy = Path(kept_of(home, run["id"], attempt=3).copy or "")
    assert sorted(os.listdir(copy / "ck")) == ["big-2", "latest", "log", "step"]
    assert (copy / "ck/log").read_text() == "more\n" * 3 and os.readlink(copy / "ck/latest") == "big-2"


def test_outputs_that_cannot_be_moved_stay_in_the_copy(home: Home) -> None:
    """As on a full disk: a file lies where the folder of kept files would be made."""
    script = 'touch "$GOFER_RUN_DIR/files"; mkdir outputs; echo o > outputs/b; echo other > other'
    for words in ((), ("--keep", "none")):
        run = with_code(home, *words, "sh", "-c", script)
        kept = kept_of(home, run["id"])
        assert kept.copy is not None and (Path(kept.copy) / "outputs/b").read_text() == "o\n"
        assert f"what could not be kept, on node 0: {kept.copy}" in home.gofer("q", run["id"]).out


def test_folders_keep_their_modes_and_times(home: Home) -> None:
    script = (
        "mkdir -p deep/closed shared empty; echo x > deep/closed/x; echo y > shared/y; echo z > plain; "
        "chmod 700 deep/closed empty; chmod 2750 shared; "
        "touch -d 2020-01-02T03:04:05Z deep/closed shared empty"
    )
    run = with_code(home, "sh", "-c", script)
    extracted = home.root / "extracted"
    home.gofer("extract", run["id"], str(extracted))
    for top in (home.run_folder(run["id"]) / "files", extracted / "files"):
        for name, mode in (("deep/closed", 0o700), ("shared", 0o750), ("empty", 0o700)):
            status = (top / name).stat()
            assert (status.st_mode & 0o777, status.st_mtime) == (mode, 1577934245), (top, name)


def test_the_rows_of_a_group_keep_so_much_together(home: Home) -> None:
    """The limit of the group is not that of a row: three rows of 3,000 bytes fit, and the fourth stays."""
    home.configure("job: {keep: 4k, keep_group: 9500}\n")
    script = "head -c 3000 /dev/zero > big; mkdir -p outputs; echo {x} > outputs/x; [ $GOFER_ATTEMPT = 2 ]"
    words = ["--each", "x=1..5", "--retries", "1", "sh", "-c", script]
    group = home.gofer("submit", "-Q", "--wait", *words).out.strip()
    kept = [kept_of(home, f"{group}-{row}", attempt=2) for row in range(5)]
    assert sorted((one.copy is None, one.files) for one in kept) == [(False, 1)] * 2 + [(True, 2)] * 3
    for row, one in enumerate(kept):
        if one.copy is not None:
            assert (Path(one.copy) / "big").stat().st_size == 3000
            result = (
                "the command wrote more beside the code than `keep_group` allows; the working copy stays in"
            )
            assert home.log(f"{group}-{row}").endswith(f"{result} {one.copy}\n")
    home.gofer("extract", group, str(home.root / "all"))
    assert all((home.root / "all" / str(row) / "files" / "big").stat().st_size == 3000 for row in range(5))


def test_a_command_that_removes_its_own_run_folder_keeps_its_exit_code(home: Home) -> None:
    run = home.finish("sh", "-c", 'echo x > made; rm -rf "$GOFER_RUN_DIR"; exit 7')
    assert (run["state"], run["reason"], run["exit_code"]) == ("failed", "exit-code", 7)
    assert files_of(home, run["id"]) == {"made": "x\n"}
    group = home.submit("--each", "x=1,2", "sh", "-c", 'rm -rf "$GOFER_RUN_DIR"/attempts; exit {x}')
    home.gofer("wait", "-Q", group, status=2)
    assert [home.view(f"{group}-{row}")["exit_code"] for row in (0, 1)] == [1, 2]
    assert "Traceback" not in (home.queue_home / "supervisor.log").read_text()


def test_what_is_written_beside_the_code_folder_is_named_and_reaches_no_other_row(home: Home) -> None:
    """A file in `../` is removed with the copy, so the outcome of the run names the file."""
    run = with_code(home, "sh", "-c", "mkdir ../results; echo 1 > ../results/x; echo 2 > '../a`b'")
    assert run["state"] == "succeeded"
    named = "it wrote `../a?b`, `../results`, which is not kept"
    assert named in run["detail"]
    assert named in home.gofer("why", run["id"]).out
    assert with_code(home, "sh", "-c", "ls ..; echo 1 > inside; : > $GOFER_OUTPUT_DIR/x")["detail"] is None
    rows = ["--cpus", str(len(os.sched_getaffinity(0))), "--each", "s=1..3"]
    group = with_code(home, *rows, "sh", "-c", "ls ..; echo {s} > ../by-{s}")
    assert group["state"] == "succeeded"
    for row in range(3):
        assert "by-" not in home.log(f"{group['id']}-{row}")
        assert f"`../by-{row + 1}`" in home.view(f"{group['id']}-{row}")["detail"]
