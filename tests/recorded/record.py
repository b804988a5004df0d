"""Record today's files, as root, in a clone at the commit whose files are wanted.

    PYTHONPATH=tests:. .venv/bin/python -m recorded.record [local queue blob slurm azure]

What is there already was written by the version that the document names under `made_by`, and stays: when a
form changes, a recording is added under a new name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from azure.storage.blob import ContainerClient
from azureml.backend.azure_home import AzureHome
from clusters.fixtures import running as running_slurm
from home import Home, until
from services.azure import azure_sim
from services.azurite import azurite
from slurm.slurm_home import SlurmHome

from recorded import tree, views

HOST = "host-of-recording"
JOB = """
echo "attempt $GOFER_ATTEMPT of ${GOFER_RUN_ID#r} with $1; the token has ${#TOKEN} letters"
mkdir -p made empty; echo new > made/file; chmod 750 made/file; ln -sf file made/link
echo "output $1" > "$GOFER_OUTPUT_DIR/result"
[ "$1" != second ] || { [ "$GOFER_ATTEMPT" = 2 ]; exit; }
exit "$1"
"""
TOKEN = {"DUMMY_TOKEN": "dummy-token-0"}
WITH_TOKEN = ("--env", "TOKEN=${env:DUMMY_TOKEN}", "--env", "PLAIN=seen")
LOCAL = (
    "targets: {box: {kind: local, gpus: 2}}\ntarget: box\nfolders: {data: {store: default, path: me/data}}\n"
)
BLOB = """targets: {box: {kind: local, store: blob}}
stores: {blob: {url: az://%s/pre, account: %s, endpoint: "%s", key: "${env:DUMMY_KEY}"}}
target: box
"""


def machine_words(root: Path) -> dict[str, str]:
    """The words that no recording may have, each with its placeholder."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {
        str(root): "@ROOT@",
        HOST: "THIS_HOST",
        boot: "00000000-0000-0000-0000-000000000000",
        os.path.dirname(sys.executable): "/usr/bin",
    }


def hide_settings(home: Home) -> None:
    """Make the project's settings the person's: they name places of this machine, which code may not hold."""
    (home.path).mkdir(exist_ok=True)
    (home.folder / "gofer.yaml").rename(home.path / "config.yaml")


def submitted(home: Home, *words: str) -> str:
    return home.gofer("submit", "-Q", *words).out.strip()


def common_runs(home: Home) -> list[str]:
    """The ids of runs that have ended in the ways that every kind of target knows."""
    (home.folder / "job.sh").write_text(JOB)
    home.environ |= TOKEN
    ids = [
        submitted(home, "--name", "good", "--tag", "lr=0.1", *WITH_TOKEN, "bash", "job.sh", "0"),
        submitted(home, "--retries", "1", *WITH_TOKEN, "bash", "job.sh", "3"),
        submitted(home, "--each", "code=0,5", "bash", "job.sh", "{code}"),
        submitted(home, "--no-code", "--time-limit", "1s", "sh", "-c", "echo up; exec sleep 300"),
        submitted(home, "--no-code", "--setup", "echo set up; exit 4", "true"),
    ]
    home.wait(*ids)
    stopped = submitted(home, "--no-code", "sh", "-c", "echo up; exec sleep 300")
    until_log(home, stopped)
    home.gofer("abort", "-Q", stopped)
    home.wait(stopped)
    return [*ids, stopped]


def until_log(home: Home, run: str) -> None:
    until(lambda: home.gofer("logs", run, status=None).out.startswith("up\n"), f"a log of {run}")


def local_runs(home: Home) -> list[str]:
    """Those, and the ways that only a machine's own queue can be made to show in a moment."""
    ids = common_runs(home)
    more = [
        submitted(home, "--retries", "1", "bash", "job.sh", "second"),
        submitted(home, "--no-code", "sh", "-c", "kill -9 $$"),
        submitted(
            home, "--no-code", "--nodes", "2", "--procs", "2", "sh", "-c", "echo $RANK; [ $RANK != 3 ]"
        ),
        submitted(home, "--no-code", "--keep", "64B", "sh", "-c", "seq 60 > big; echo small > small"),
        submitted(home, "--no-code", "-n", "1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"),
    ]
    home.wait(*more)
    lost = submitted(home, "--no-code", "sh", "-c", "echo up; exec sleep 300")
    os.kill(home.agent(lost), signal.SIGKILL)
    home.wait(lost)
    again = home.gofer("resubmit", "-Q", "--continue", "--same-code", ids[0]).out.strip()
    home.wait(again)
    home.gofer("tag", ids[0], "best=yes")
    home.finish_with_input()
    for number in range(3):
        path = home.folder / "data" / "voc" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"picture {number}\n")
    home.gofer("u", "--pack", "data/voc")
    subprocess.run(
        home.argv("secret", "set", "dummy"),
        input=b"dummy-secret-0\n",
        env=home.environ,
        cwd=home.folder,
        check=True,
    )
    return [run["id"] for run in json.loads(home.gofer("list", "runs", "--all", "--json", "--rows").out)]


DATA = [
    ["ls", "-r", "--json", "data"],
    ["cat", "data/voc/1.txt"],
    ["secret", "list"],
    ["config", "show", "--json"],
]


# The queue remembers ended runs a while, and nothing reads that: `queue` has a queue with open runs.
LASTING = ["home/ledger.db", "home/secrets.json", "home/store", "project"]


def record_local(root: Path) -> dict[str, Any]:
    home = Home(root)
    home.configure(LOCAL)
    ids = local_runs(home)
    seen = seen_now(home, ids, machine_words(root), DATA)
    home.close()
    return {"files": tree.save(root, LASTING, machine_words(root)), **seen}


def record_queue(root: Path) -> dict[str, Any]:
    """A queue whose machine lost its power: one run ended, one ran, one waited."""
    home = Home(root)
    home.configure(LOCAL)
    home.environ |= TOKEN
    (home.folder / "job.sh").write_text('echo up; [ -e "$1" ] || exec sleep 300; echo "${#TOKEN} letters"\n')
    words = (*WITH_TOKEN, "-n", "2", "--single", "--retries", "2", "bash", "job.sh")
    ids = [submitted(home, *words, "job.sh"), submitted(home, *words, "@ROOT@/gate"), ""]
    ids[2] = submitted(home, *words, "job.sh")
    home.wait(ids[0])
    until_log(home, ids[1])
    states = [home.view(run)["state"] for run in ids]
    assert states == ["succeeded", "running", "queued"], states
    home.kill_all()
    return {"files": tree.save(root, ["home", "project"], machine_words(root)), "runs": ids, "views": []}


def record_blob(root: Path) -> dict[str, Any]:
    """Runs in an object store, of which one is still writing: its log is in parts."""
    with azurite(root / "azurite") as server:
        account = server.one
        container = account.new_container()
        home = Home(root / "home")
        home.configure(BLOB % (container, account.name, account.endpoint))
        home.environ["DUMMY_KEY"] = account.key
        hide_settings(home)
        names = {
            account.endpoint: "@ENDPOINT@",
            account.name: "@ACCOUNT@",
            container: "@CONTAINER@",
            **machine_words(home.root),
        }
        ids = common_runs(home)[:4]
        seen = seen_now(home, ids, names)
        script = "echo up; seq 1 40; mkdir d; echo x > d/file; sleep 12; echo more; exec sleep 300"
        living = submitted(home, "--no-code", "sh", "-c", script)
        until(lambda: "more" in home.gofer("logs", living, status=None).out, "a second part")
        client = container_client(account, container)
        blobs = saved_blobs(client, names)
        assert any(".parts/" in name for name in blobs)
        home.gofer("abort", "-Q", "--grace", "0s", living)
        home.wait(living)
        home.close()
        files = tree.save(home.root, ["home/ledger.db", "home/config.yaml", "project"], names)
        return {"files": files, "blobs": blobs, "living": living, **seen}


def record_slurm(root: Path) -> dict[str, Any]:
    with running_slurm() as site:
        home = SlurmHome(root, site)
        hide_settings(home)
        ids = common_runs(home)
        two = submitted(home, "--no-code", "--nodes", "2", "sh", "-c", "echo $RANK of $WORLD_SIZE")
        taken = submitted(home, "--no-code", "sh", "-c", "echo up; [ $GOFER_ATTEMPT = 2 ] || exec sleep 300")
        until_log(home, taken)
        site.call("scontrol", "requeue", home.job(taken))
        home.wait(two, taken)
        names = {**machine_words(root), str(site.folder): "@SITE@"}
        seen = seen_now(home, [*ids, two, taken], names)
        return {"files": tree.save(root, ["home", "project", "far", "shared"], names), **seen}


def record_azure(root: Path) -> dict[str, Any]:
    with azure_sim(root / "sim") as azure:
        home = AzureHome(root / "home", azure)
        hide_settings(home)
        ids = common_runs(home)
        two = submitted(home, "--no-code", "-c", "gpu", "-n", "8", "sh", "-c", "echo $RANK of $WORLD_SIZE")
        words = ("-c", "vc", "-n", "1", "sh", "-c", "echo up; [ $GOFER_ATTEMPT = 2 ] || exec sleep 300")
        taken = submitted(home, "--no-code", *words)
        until_log(home, taken)
        azure.admin("POST", f"/jobs/{taken}/preempt", {"resume_s": 1})
        home.wait(two, taken)
        account = azure.account()
        names = {
            azure.blobs: "@ENDPOINT@",
            account.name: "@ACCOUNT@",
            home.container: "@CONTAINER@",
            azure.base: "@SERVICE@",
            **machine_words(home.root),
        }
        seen = seen_now(home, [*ids, two, taken], names)
        client = azure.blob_client().get_container_client(home.container)
        files = tree.save(home.root, ["home", "project"], names)
        home.close()
        return {"files": files, "blobs": saved_blobs(client, names), **seen}


def saved_blobs(client: ContainerClient, names: Mapping[str, str]) -> dict[str, Any]:
    """Every blob of a container, but the agent, which is a copy of the source."""
    found = (name for name in client.list_blob_names() if "/agents/" not in name)
    return {name: tree.of_bytes(client.download_blob(name).readall(), names) for name in found}


def container_client(account: Any, container: str) -> ContainerClient:
    return ContainerClient(f"{account.endpoint}", container, credential=account.key)


def seen_now(
    home: Home, ids: list[str], names: Mapping[str, str], more: list[list[str]] | None = None
) -> dict[str, Any]:
    """What gofer says of these runs and their rows now."""
    runs = json.loads(home.gofer("list", "runs", "--json", "--rows", "--all").out)
    wanted = [run for run in runs if run["id"] in ids or run["group"] in ids]
    lines = [*views.commands(wanted, whole=more is not None), *(more or [])]
    return {
        "runs": ids,
        "views": [{"words": words, **views.answer(home, words, names)} for words in lines],
    }


RECORDERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "local": record_local,
    "queue": record_queue,
    "blob": record_blob,
    "slurm": record_slurm,
    "azure": record_azure,
}


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gofer-files-") as folder:
        yield Path(folder)


def main(wanted: list[str]) -> None:
    """Record these, or all, on a machine that has another name meanwhile."""
    if os.uname().nodename != HOST:
        rename = f'hostname {HOST}; exec "$@"'
        command = [
            "unshare",
            "--uts",
            "sh",
            "-c",
            rename,
            "sh",
            sys.executable,
            "-m",
            "recorded.record",
            *wanted,
        ]
        os.execvp(command[0], command)
    # A run takes the environment of the shell along: this one has nothing of the person who records.
    node = os.path.dirname(shutil.which("node") or "")
    os.environ.clear()
    os.environ.update({"PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{node}", "LANG": "C.UTF-8"})
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    for name in wanted or RECORDERS:
        with scratch() as root:
            document = {"made_by": commit, **RECORDERS[name](root)}
        views.as_file(tree.FOLDER / f"{name}.json", document)


if __name__ == "__main__":
    main(sys.argv[1:])
