"""What is kept of a run that writes more than `keep`, on nodes whose disk goes with the run."""

from __future__ import annotations

import json
from typing import Any

from azureml.node.service import Job, Service, until

# Three files of 1,000 bytes, each a second newer than the last.
THREE = (
    "for n in 1 2 3; do head -c 1000 /dev/zero > $n; touch -d 2026-01-01T00:00:0${n}Z $n; done; "
    "mkdir -p outputs; head -c 500 /dev/zero > outputs/o"
)


def kept_files(job: Job, run: str = "") -> list[str]:
    prefix = job.key("files/", run)
    return [info.key[len(prefix) :] for info in job.objects.list_beginning(prefix)]


def events(job: Job, name: str) -> list[dict[str, Any]]:
    found = job.objects.list_beginning(job.key("attempts/1/node-0/events.jsonl"))
    text = b"".join(job.objects.get(info.key) for info in found).decode()
    return [one for one in map(json.loads, text.splitlines()) if one["event"] == name]


def test_outputs_come_first_and_then_the_newest(service: Service) -> None:
    """`keep_most` counts the outputs too: of 2,600 bytes they take 500, and two of the files fit."""
    job = service.job(["sh", "-c", THREE], keep_bytes=1500, keep_most_bytes=2600)
    (done,) = job.run()
    assert done.status == 0, done.err
    assert kept_files(job) == ["2", "3", "outputs/o"]
    kept = job.exit_record()["kept"]
    assert (kept["files"], kept["left"], kept["copy"]) == (3, [["1", "more than may be kept"]], None)
    output = "gofer: the command wrote more beside the code than `keep` allows; "
    output += "not kept: 1 of the files, 1000 B: 1\n"
    assert job.log() == output


def test_a_run_that_writes_too_much_is_warned_while_it_runs(service: Service) -> None:
    waits = 'until [ -e "$GOFER_RUN_DIR/go" ]; do sleep 0.1; done'
    script = f"mkdir ck; head -c 3000 /dev/zero > ck/big; {waits}"
    job = service.job(["sh", "-c", script], keep_bytes=1500)
    job.start()
    words = (
        "gofer: the command wrote 2.9 KiB beside the code, and `keep` is 1.5 KiB: at the end, outputs are "
        "kept first, then the newest files, up to 50.0 GiB (`keep_most`). To keep all of it, submit with "
        '`--keep 3KiB`, or write `outputs: ["ck/"]`\n'
    )
    until(lambda: job.log() == words, "the warning in the log")
    assert [f"gofer: {one['words']}\n" for one in events(job, "keep-limit")] == [words]
    (folder,) = job.room.parent.glob("node-0/gofer-*/*/*/spool/runs/*")
    (folder / "go").touch()
    assert job.wait()[0].status == 0
    assert kept_files(job) == ["ck/big"]


def test_the_rows_of_a_group_keep_so_much_together(service: Service) -> None:
    """Each row is a job on a node of its own; the count is in the store."""
    limits = {"keep_bytes": 5000, "keep_group_bytes": 5000}
    job = service.job(["sh", "-c", THREE], columns=["x"], rows=[["1"], ["2"], ["3"]], **limits)
    for row in range(3):
        job.words = ["--row", str(row)]
        (done,) = job.run()
        assert done.status == 0, done.err
    runs = [f"{job.id}-{row}" for row in range(3)]
    assert [kept_files(job, run) for run in runs] == [
        ["1", "2", "3", "outputs/o"],
        ["2", "3", "outputs/o"],
        ["outputs/o"],
    ]
    output = "gofer: the command wrote more beside the code than `keep_group` allows; "
    output += "not kept: {} of the files, {}\n"
    logs = [job.log(run=run) for run in runs]
    assert logs == ["", output.format(1, "1000 B: 1"), output.format(3, "2.9 KiB: 3, 2, 1")]
