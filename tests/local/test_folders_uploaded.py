"""`mode: upload`: what a command leaves in the folder goes to the store, however the command ended."""

from __future__ import annotations

import os
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
from services.proxy import Fault, Proxy, proxied

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("folders")]

# Leaves the files named on its command line, each with its own name in it.
LEAVE = """
import os, sys
for name in sys.argv[1:]:
    os.makedirs(os.path.dirname(f"out/{name}"), exist_ok=True)
    open(f"out/{name}", "w").write(name)
"""


@pytest.fixture
def watched(tmp_path: Path, azurite: Azurite) -> Iterator[tuple[FolderHome, Proxy]]:
    """A home with Azurite behind a proxy, and that."""
    with proxied(azurite.port) as proxy:
        entry = azure_entry(azurite.one, f"http://127.0.0.1:{proxy.port}/{azurite.one.name}")
        made = FolderHome(tmp_path, entry, azurite.one.key)
        made.map(out="upload")
        yield made, proxy
        proxy.faults = lambda request: None
        made.close()


def sent(proxy: Proxy) -> list[str]:
    """The objects that were written."""
    puts = (one.path.partition("?")[0] for one in proxy.requests if one.method == "PUT")
    return sorted({path.partition("/me/out/")[2] for path in puts if "/me/out/" in path})


def test_what_the_command_left_is_in_the_store(home: FolderHome) -> None:
    home.map(out="upload")
    done = home.run("python", "-c", LEAVE, "a", "deep/er/b", *(f"odd/{name}" for name in ODD_NAMES))
    assert done["state"] == "succeeded", done["detail"]
    names = ["a", "deep/er/b", *(f"odd/{name}" for name in ODD_NAMES)]
    assert home.stored("out") == {name: name.encode() for name in names}
    assert home.steps(done["id"], "uploaded")[0]["files"] == len(names)


def test_large_and_empty_files_programs_and_links(home: FolderHome) -> None:
    home.map(out="upload")
    script = """
import os
open("out/large", "wb").write(bytes(range(256)) * (20 << 12))
open("out/empty", "wb").close()
open("out/run.sh", "w").write("#!/bin/sh\\n")
os.chmod("out/run.sh", 0o755)
os.symlink("run.sh", "out/link")
os.symlink("/", "out/everything")
os.symlink("nowhere", "out/nothing")
os.mkfifo("out/pipe")
"""
    done = home.run("python", "-c", script)
    assert done["state"] == "succeeded", done["detail"]
    program = b"#!/bin/sh\n"
    large = bytes(range(256)) * (20 << 12)
    assert home.stored("out") == {"large": large, "empty": b"", "run.sh": program, "link": program}
    steps = home.steps(done["id"], "left out")[0]
    assert (sorted(steps["names"]), steps["count"]) == (["everything", "nothing", "pipe"], 3)


def test_a_failed_and_an_aborted_command_leave_what_they_have(home: FolderHome) -> None:
    home.map(out="upload")
    failed = home.run("sh", "-c", "echo half > out/failed; exit 3")
    assert (failed["state"], failed["reason"], failed["exit_code"]) == ("failed", "exit-code", 3)
    stopped = home.begin("sh", "-c", "echo half > out/stopped; echo up; sleep 1000")
    home.until_logged(stopped, "up")
    home.gofer("abort", stopped)
    assert home.wait(stopped)[0]["state"] == "cancelled"
    assert home.stored("out") == {"failed": b"half\n", "stopped": b"half\n"}


def test_nothing_is_sent_of_a_command_that_was_never_started(file_home: FolderHome) -> None:
    file_home.map(out="upload")
    done = file_home.run("--setup", "echo x > out/x; exit 1", "true")
    assert (done["state"], done["reason"]) == ("failed", "set-up")
    assert file_home.stored("out") == {}


def test_only_new_and_changed_files_are_sent(watched: tuple[FolderHome, Proxy]) -> None:
    home, proxy = watched
    assert home.run("python", "-c", LEAVE, "same", "other")["state"] == "succeeded"
    home.put({"other": b"ohter", "theirs": b"untouched"}, folder="out")
    proxy.forget()
    assert home.run("python", "-c", LEAVE, "same", "other", "new")["state"] == "succeeded"
    assert sent(proxy) == ["new", "other"]
    assert home.stored("out") == {
        "same": b"same",
        "other": b"other",
        "new": b"new",
        "theirs": b"untouched",
    }


@pytest.mark.slow
def test_many_files_are_compared_by_one_listing(watched: tuple[FolderHome, Proxy]) -> None:
    home, proxy = watched
    names = [f"{number % 7}/{number}" for number in range(300)]
    assert home.run("python", "-c", LEAVE, *names)["state"] == "succeeded"
    assert len(home.stored("out")) == 300
    proxy.forget()
    assert home.run("python", "-c", LEAVE, *names, "new")["state"] == "succeeded"
    assert sent(proxy) == ["new"]
    assert not [one for one in proxy.requests if one.method == "HEAD"]


def test_what_cannot_be_sent_fails_the_run_and_is_kept(watched: tuple[FolderHome, Proxy]) -> None:
    home, proxy = watched
    proxy.faults = lambda request: Fault("status", 403) if "/me/out/" in request.path else None
    done = home.run("python", "-c", LEAVE, "result")
    assert (done["state"], done["reason"]) == ("failed", "staging")
    kept = home.queue_home / "unsent" / f"{done['id']}.1.0.out"
    where = f"{home.blob.url}/me/out"
    assert done["detail"].startswith(f"the files in `out` were not sent to {where}: `result`: ")
    assert done["detail"].endswith(f"; it is kept in {kept}")
    assert (kept / "result").read_text() == "result"


def test_a_run_that_failed_anyway_also_says_that_its_files_were_not_sent(
    watched: tuple[FolderHome, Proxy],
) -> None:
    home, proxy = watched
    proxy.faults = lambda request: Fault("status", 403) if "/me/out/" in request.path else None
    done = home.run("sh", "-c", "echo x > out/result; exit 7")
    assert (done["reason"], done["exit_code"]) == ("exit-code", 7)
    assert done["detail"].startswith("rank 0 exited with 7; the files in `out` were not sent to ")
    assert done["why"].startswith("exited with 7; the files in `out` were not sent to ")


def test_an_abort_without_grace_does_not_wait_for_the_store(watched: tuple[FolderHome, Proxy]) -> None:
    home, proxy = watched
    proxy.faults = lambda request: Fault("stall") if "/me/out/" in request.path else None
    run_id = home.begin("python", "-c", LEAVE, "result")
    until(lambda: home.steps(run_id, "uploading"), "the upload")
    home.gofer("abort", "--grace", "0s", run_id)
    done = home.wait(run_id)[0]
    assert (done["state"], done["reason"]) == ("failed", "staging")
    assert done["detail"].endswith(f"is kept in {home.queue_home}/unsent/{run_id}.1.0.out")
    assert (home.queue_home / "unsent" / f"{run_id}.1.0.out" / "result").read_text() == "result"


def test_every_node_sends_its_own(azure_home: FolderHome) -> None:
    azure_home.map(out="upload")
    done = azure_home.run("--nodes", "2", "sh", "-c", "echo $RANK > out/$RANK")
    assert done["state"] == "succeeded", done["detail"]
    assert azure_home.stored("out") == {"0": b"0\n", "1": b"1\n"}


def test_rows_of_an_array_have_each_a_folder_of_their_own(file_home: FolderHome) -> None:
    file_home.map(out="upload")
    (file_home.folder / "code.txt").write_text("code")
    group = file_home.begin("--each", "n=1..4", "sh", "-c", "cat code.txt; ls out; echo {n} > out/{n}")
    assert file_home.wait(group)[0]["counts"] == {"succeeded": 4}
    assert [file_home.log(f"{group}-{row}") for row in range(4)] == ["code"] * 4
    assert file_home.stored("out") == {str(n): f"{n}\n".encode() for n in range(1, 5)}


def test_the_copy_of_the_code_is_removed_with_what_was_sent(file_home: FolderHome) -> None:
    file_home.map(out="upload")
    file_home.run("python", "-c", LEAVE, "a")
    until(lambda: not os.listdir(file_home.queue_home / "work"), "an empty work folder")
    assert file_home.stored("out") == {"a": b"a"}
