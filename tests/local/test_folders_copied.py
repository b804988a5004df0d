"""`mode: copy`: the folder is here before the command starts, and only what is missing is fetched."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from data.project import ODD_NAMES
from home import until
from local.folder_fixtures import azure_home as azure_home
from local.folder_fixtures import file_home as file_home
from local.folder_fixtures import home as home
from local.folder_home import FolderHome, azure_entry
from services.azurite import Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.proxy import Fault, Proxy, Request, proxied

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("folders")]

# Prints what lies in `data`, each file with a digest of its bytes.
SHOW = """
import hashlib, json, os
found = {}
for where, _, names in os.walk("data/"):
    for name in names:
        path = os.path.join(where, name)
        found[os.path.relpath(path, "data")] = hashlib.md5(open(path, "rb").read()).hexdigest()
print(json.dumps(found))
"""


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.md5(data).hexdigest() for name, data in files.items()}


def seen(home: FolderHome) -> tuple[str, dict[str, str]]:
    """The id of a run, and what it found in `./data`."""
    done = home.run("python", "-c", SHOW)
    assert done["state"] == "succeeded", done["detail"]
    return done["id"], json.loads(home.log(done["id"]))


@pytest.fixture
def slow(tmp_path: Path, azurite: Azurite) -> Iterator[tuple[FolderHome, Proxy]]:
    """A home with Azurite behind a proxy, and that."""
    with proxied(azurite.port) as proxy:
        entry = azure_entry(azurite.one, f"http://127.0.0.1:{proxy.port}/{azurite.one.name}")
        made = FolderHome(tmp_path, entry, azurite.one.key)
        yield made, proxy
        made.close()


def reads(proxy: Proxy, name: str = "/me/data/") -> list[str]:
    """The objects that were fetched."""
    found = (one.path.partition("?")[0] for one in proxy.requests if one.method == "GET")
    return [path.partition(name)[2] for path in found if name in path]


def test_the_run_finds_the_folder_of_the_store_and_a_second_fetches_nothing(home: FolderHome) -> None:
    files = {f"odd/{name}/{name}": name.encode() for name in ODD_NAMES}
    files |= {"a/b/c": b"deep", "empty": b"", "big": os.urandom(9 << 20)}
    home.put(files)
    home.put({"x": b"not in the folder"}, folder="database")
    first, found = seen(home)
    assert found == digests(files)
    assert home.steps(first, "copied")[0]["files"] == len(files)
    assert home.steps(first, "copied")[0]["bytes"] == sum(map(len, files.values()))
    second, found = seen(home)
    assert found == digests(files)
    assert home.steps(second, "copied")[0]["of_files"] == 0


def test_what_changed_or_went_in_the_store_changes_and_goes_here(home: FolderHome) -> None:
    home.put({"kept": b"1", "changed": b"old", "gone": b"2", "was/folder": b"3", "was-file": b"4"})
    seen(home)
    home.blob.delete(["me/data/gone", "me/data/was/folder", "me/data/was-file"])
    home.put({"changed": b"new", "was": b"a file now", "was-file/now": b"a folder"})
    run_id, found = seen(home)
    assert found == digests(
        {"kept": b"1", "changed": b"new", "was": b"a file now", "was-file/now": b"a folder"}
    )
    assert home.steps(run_id, "copied")[0]["files"] == 3


def test_an_empty_folder_is_there_and_empty(home: FolderHome) -> None:
    assert seen(home)[1] == {}


def test_a_file_that_a_command_damaged_is_fetched_again(file_home: FolderHome) -> None:
    file_home.put({"x": b"right"})
    file_home.run("sh", "-c", "echo wrong > data/x; echo more > data/y")
    assert seen(file_home)[1] == digests({"x": b"right"})


def test_what_another_run_reads_is_not_removed_under_it(file_home: FolderHome) -> None:
    file_home.put({"x": b"1", "y": b"2"})
    gate = file_home.root / "gate"
    reader = file_home.begin("sh", "-c", f"until [ -e '{gate}' ]; do sleep 0.05; done; cat data/x")
    file_home.until_event(reader, "started")
    file_home.blob.delete(["me/data/x"])
    file_home.put({"new": b"3"})
    assert file_home.run("true")["state"] == "succeeded"
    gate.touch()
    assert file_home.wait(reader)[0]["state"] == "succeeded"
    assert file_home.log(reader) == "1"
    assert seen(file_home)[1] == digests({"y": b"2", "new": b"3"})


@pytest.mark.slow
def test_a_thousand_small_files(azure_home: FolderHome) -> None:
    files = {f"{number % 10}/{number}": str(number).encode() * 50 for number in range(1000)}
    azure_home.put(files)
    run_id, found = seen(azure_home)
    assert found == digests(files)
    assert azure_home.steps(run_id, "copied")[0]["files"] == 1000


@pytest.mark.slow
def test_one_large_file_in_little_memory(azurite: Azurite, azure_home: FolderHome) -> None:
    piece = os.urandom(1 << 20)
    spec = azure_home.blob.node_spec("me/data", expires_s=3600.0, write=True)  # type: ignore[attr-defined]
    azure_home.blob.put_stream("me/data/large", (piece for _ in range(200)))  # type: ignore[attr-defined]
    script = (
        "import json, re, sys; from gofer.node.folders.copy import copy;"
        "copy(json.load(sys.stdin), sys.argv[1], {}, lambda message: None);"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(azure_home.root / "copy")],
        input=json.dumps(spec).encode(),
        capture_output=True,
        timeout=100,
        check=True,
    )
    large = azure_home.root / "copy/tree/large"
    assert large.stat().st_size == 200 << 20
    assert hashlib.md5(large.read_bytes()).digest() == hashlib.md5(piece * 200).digest()
    assert int(done.stdout) < 64 * 1024, "more than 64 MiB for one file of 200"


def test_after_a_power_cut_finished_files_are_not_fetched_again(slow: tuple[FolderHome, Proxy]) -> None:
    home, proxy = slow
    files = {f"f{number:03d}": os.urandom(1000) for number in range(60)}
    home.put(files)
    proxy.forget()
    proxy.faults = lambda request: Fault("hold") if len(reads(proxy)) > 30 else None
    run_id = home.begin("python", "-c", SHOW)
    until(lambda: len(reads(proxy)) > 30, "half of the files")
    until(lambda: list(home.queue_home.glob("folders/*/tree/*")), "the first of them is here")
    home.kill_all()
    here = {path.name for path in home.queue_home.glob("folders/*/tree/*")}
    assert 0 < len(here) < 60
    proxy.faults = lambda request: None
    proxy.forget()
    home.gofer("list", "runs")  # any command wakes the queue
    assert home.wait(run_id)[0]["state"] == "succeeded"
    assert json.loads(home.log(run_id)) == digests(files)
    assert sorted(reads(proxy)) == sorted(files.keys() - here)


def test_an_agent_that_is_killed_while_it_copies_is_replaced(slow: tuple[FolderHome, Proxy]) -> None:
    home, proxy = slow
    home.put({f"f{number}": b"x" for number in range(40)})
    proxy.faults = lambda request: Fault("hold") if len(reads(proxy)) > 16 else None
    proxy.forget()
    run_id = home.begin("python", "-c", SHOW)
    agent = int(home.until_event(run_id, "agent")["pid"])
    until(lambda: len(reads(proxy)) > 16, "the first files")
    os.kill(agent, signal.SIGKILL)
    proxy.let_go()
    assert home.wait(run_id)[0]["state"] == "succeeded"
    assert len(json.loads(home.log(run_id))) == 40
    assert len(home.steps(run_id, "copying")) >= 2


def test_two_runs_at_once_copy_once_and_the_second_says_that_it_waits(
    slow: tuple[FolderHome, Proxy],
) -> None:
    home, proxy = slow
    files = {f"f{number}": b"x" for number in range(30)}
    home.put(files)
    proxy.forget()
    proxy.faults = lambda request: Fault("hold") if "/me/data/f" in request.path else None
    runs = [home.begin("python", "-c", SHOW) for _ in range(2)]
    until(
        lambda: any(home.steps(run_id, "waiting") for run_id in runs),
        "one of them waits for the other",
    )
    proxy.let_go()
    assert [one["state"] for one in home.wait(*runs)] == ["succeeded"] * 2
    assert sorted(reads(proxy)) == sorted(files)
    assert sum(len(home.steps(run_id, "waiting")) for run_id in runs) == 1
    assert [json.loads(home.log(run_id)) for run_id in runs] == [digests(files)] * 2


def test_an_abort_does_not_wait_for_the_copy(slow: tuple[FolderHome, Proxy]) -> None:
    home, proxy = slow
    home.put({"x": b"1"})
    proxy.faults = lambda request: Fault("stall") if request.path.partition("?")[0].endswith("/x") else None
    run_id = home.begin("true")
    until(lambda: reads(proxy), "the first request")
    until(lambda: "copying `data`" in home.gofer("q", run_id).out, "the copy in what `q` says")
    home.gofer("abort", run_id)
    done = home.wait(run_id)[0]
    assert (done["state"], done["reason"]) == ("cancelled", "user")
    assert not list(home.run_folder(run_id).rglob("rank-*.log"))


def test_the_time_limit_counts_while_the_folder_is_brought(slow: tuple[FolderHome, Proxy]) -> None:
    home, proxy = slow
    home.put({"x": b"1"})
    proxy.faults = lambda request: Fault("stall") if request.path.partition("?")[0].endswith("/x") else None
    done = home.run("--time-limit", "2s", "true")
    assert (done["state"], done["reason"]) == ("failed", "time-limit")
    assert done["detail"] == done["why"] == "the time limit was reached while the folder `data` was prepared"


def test_a_line_that_cuts_answers_short_harms_nothing(slow: tuple[FolderHome, Proxy]) -> None:
    home, proxy = slow
    files = {"small": os.urandom(5000), "large": os.urandom(6 << 20)}
    home.put(files)
    met: set[str] = set()

    def once(request: Request) -> Fault | None:
        path = request.path.partition("?")[0]
        if request.method != "GET" or "/me/data/" not in path or path in met:
            return None
        met.add(path)
        return Fault("truncate")

    proxy.faults = once
    assert seen(home)[1] == digests(files)
    assert len(met) == 2


def test_a_store_that_is_away_fails_the_run_and_says_which(tmp_path: Path, azurite: Azurite) -> None:
    home = FolderHome(tmp_path, azure_entry(azurite.one), azurite.one.key)
    home.entry["endpoint"] = "http://127.0.0.1:1/dummyone"
    home.map(data="copy")
    done = home.run("true")
    assert (done["state"], done["reason"], done["exit_code"]) == ("failed", "staging", None)
    where = f"{home.blob.url}/me/data"
    assert done["detail"].startswith(f"the folder `data` could not be read from {where}: connection refused")
    assert done["detail"].endswith(f"; `gofer ls {where}` lists it from here")
    assert home.environ["DUMMY_KEY"] not in json.dumps(done)
    home.close()


def test_a_store_whose_folder_went_while_the_run_waited_fails_it(file_home: FolderHome) -> None:
    gate = file_home.root / "gate"
    every = str(len(os.sched_getaffinity(0)))
    first = file_home.begin("--cpus", every, "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done")
    second = file_home.begin("true")
    file_home.until_event(first, "started")
    (file_home.root / "blobs").rename(file_home.root / "elsewhere")
    gate.touch()
    done = file_home.wait(second)[0]
    assert (done["state"], done["reason"]) == ("failed", "staging")
    assert f"the store's folder {file_home.root}/blobs does not exist" in done["detail"]


def test_a_name_that_no_file_can_have_is_named(azurite: Azurite, azure_home: FolderHome) -> None:
    container = azure_home.entry["url"].split("/")[2]
    azurite.one.client().get_blob_client(container, "pre/me/data/a//b").upload_blob(b"x")
    done = azure_home.run("true")
    assert (done["state"], done["reason"]) == ("failed", "staging")
    assert "'a//b'" in done["detail"]


def test_rows_of_an_array_share_the_copy(azure_home: FolderHome) -> None:
    azure_home.put({"x": b"one\n"})
    group = azure_home.begin("--each", "n=1..4", "sh", "-c", "cat data/x; echo {n}")
    assert azure_home.wait(group)[0]["counts"] == {"succeeded": 4}
    assert [azure_home.log(f"{group}-{row}") for row in range(4)] == [f"one\n{n}\n" for n in range(1, 5)]
    steps = [azure_home.steps(f"{group}-{row}", "copied")[0] for row in range(4)]
    assert sum(one["files"] for one in steps) == 1
