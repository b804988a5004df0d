"""What is true after a line of the documents, by the name that `lines.toml` has for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from azureml.seeds.layout import OLD_JOB, OLD_LOGS, PHILLY_JOB, XT_JOB, OlderToolHome
from home import Done, until

Effect = Callable[[OlderToolHome, Done], None]


def logs_are_here(job: str) -> Effect:
    def check(older_home: OlderToolHome, _: Done) -> None:
        for name, text in OLD_LOGS.items():
            assert (older_home.folder / "assets" / job / name).read_text() == text

    return check


def is_cancelled(name: str) -> Effect:
    def check(older_home: OlderToolHome, _: Done) -> None:
        assert older_home.azure.job(name)["status"] == "Canceled"
        assert older_home.view(name)["state"] == "cancelled"

    return check


def runs_again(job: str) -> Effect:
    """First the old one is stopped, then its command runs with its GPUs and this folder's code."""

    def check(older_home: OlderToolHome, done: Done) -> None:
        assert older_home.azure.job(job)["status"] == "Canceled"
        new = older_home.ended(done.out)
        assert (new["state"], new["gpus"], new["nodes"], new["procs"]) == ("succeeded", 8, 2, 4)
        assert new["command"] == ["python", "train.py", "--data", "voc20"]
        assert new["resubmit_of"] == job
        assert "rank 0 of 8 --data voc20" in new["log"]

    return check


def holds(gpus: int) -> Effect:
    """GPUs to work on by hand: the run waits for its person, who gives them back."""

    def check(older_home: OlderToolHome, done: Done) -> None:
        run_id = done.out.strip()
        found = until(lambda: (one := older_home.view(run_id))["state"] == "running" and one, "it runs")
        assert (found["gpus"], found["nodes"], found["procs"]) == (gpus, gpus // 4, 1)
        until(lambda: older_home.azure.job(run_id)["shells"], "the service has opened a shell")
        inside = older_home.gofer("ssh", run_id, "printenv", "AZ_BATCH_NODE_ID")
        assert inside.out == "tvmps_0\n", inside
        older_home.gofer("abort", run_id)

    return check


def code_is_there(older_home: OlderToolHome, _: Done) -> None:
    found = older_home.blobs()
    assert [name for name in found if name.startswith("path/gofer/snapshots/")]
    client = older_home.azure.blob_client(older_home.accounts[0].name).get_container_client(
        older_home.containers[0]
    )
    whole = b"".join(client.download_blob(name).readall() for name in found)
    assert b"OMPI_COMM_WORLD_RANK" in whole
    assert older_home.accounts[0].key.encode() not in whole


def succeeded(says: str, **facts: Any) -> Effect:
    """The run succeeded with these facts, and its first rank logged that."""

    def check(older_home: OlderToolHome, done: Done) -> None:
        run = older_home.ended(done.out)
        assert run["state"] == "succeeded", run
        assert {name: run[name] for name in facts} == facts
        assert says in run["log"]

    return check


def voc20_in(at: int) -> Effect:
    def check(older_home: OlderToolHome, _: Done) -> None:
        assert {f"path/to/data/voc20/{name}" for name in ("a.txt", "b.txt")} <= set(older_home.blobs(at))

    return check


def coco_is_here(older_home: OlderToolHome, _: Done) -> None:
    assert (older_home.folder / "data/coco/c.txt").read_text() == "coco/c.txt"


def coco_is_gone(older_home: OlderToolHome, _: Done) -> None:
    assert sorted(older_home.blobs()) == ["path/to/data/voc20/a.txt", "path/to/data/voc20/b.txt"]


def browsed(older_home: OlderToolHome, done: Done) -> None:
    assert (older_home.root / "browsed").read_text() == done.out.strip()


EFFECTS: dict[str, Effect] = {
    "logs are here": logs_are_here(OLD_JOB),
    "philly logs are here": logs_are_here(PHILLY_JOB),
    "old job is cancelled": is_cancelled(OLD_JOB),
    "xt job is cancelled": is_cancelled(XT_JOB),
    "philly job is cancelled": is_cancelled(PHILLY_JOB),
    "old job runs again": runs_again(OLD_JOB),
    "philly job runs again": runs_again(PHILLY_JOB),
    "4 GPUs are held": holds(4),
    "8 GPUs are held": holds(8),
    "code is there": code_is_there,
    "cmd ran": succeeded("cmd was here", gpus=4, nodes=1),
    "nvidia-smi ran on one whole node": succeeded("rank 0 of 4", gpus=4, nodes=1, procs=4),
    "nvidia-smi ran on c2": succeeded("rank 0 of 4", gpus=4, target="c2"),
    "scripts/train.py ran with 4 ranks": succeeded(
        "rank 0 of 4", command=["python", "scripts/train.py"], gpus=4
    ),
    "train ran with 4 ranks": succeeded("rank 0 of 4 --data voc20", gpus=4, nodes=1, procs=4),
    "train ran with 8 ranks": succeeded("rank 0 of 8 --data voc20", gpus=8, nodes=2, procs=4),
    "ls ran on c1": succeeded("train.py", target="c1"),
    "myscript ran on eus-v100": succeeded(
        "myscript was here", target="eus-v100", command=["python", "myscript.py"]
    ),
    "voc20 is in the store": voc20_in(0),
    "voc20 is on eu": voc20_in(0),
    "coco is here": coco_is_here,
    "coco is gone": coco_is_gone,
    "the browser opened": browsed,
}
