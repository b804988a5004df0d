"""`mode: mount`: the store's folder itself, for as long as the command runs, and no mount is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from home import until
from local.folder_fixtures import azurite as azurite
from local.folder_fixtures import file_home as file_home
from local.folder_fixtures import home as home
from local.folder_fixtures import make
from local.folder_fixtures import moto as moto
from local.folder_home import FolderHome, azure_entry
from services.azurite import Azurite
from services.moto import Moto
from services.proxy import Fault, Proxy, proxied

from gofer.node.folders import unmount

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("folders")]


@contextmanager
def mounting(home: FolderHome) -> Iterator[FolderHome]:
    """The home made able to mount. A machine that cannot fails the test: `make test` needs one that can.

    No mount is left after the test: removing the test's folder must never reach the store.
    """
    assert os.access("/dev/fuse", os.R_OK | os.W_OK), "/dev/fuse cannot be used: as root, `modprobe fuse`"
    home.add_programs()
    home.map(data="mount")
    try:
        yield home
        home.close()
    finally:
        home.kill_all()
        left = mounts(home.root)
        for path in left:
            subprocess.run(["umount", "-l", path], check=True)
    assert left == []


@pytest.fixture(params=["azure", "s3"])
def mounting_home(
    request: pytest.FixtureRequest, tmp_path: Path, azurite: Azurite, moto: Moto
) -> Iterator[FolderHome]:
    with mounting(make(request.param, tmp_path, azurite, moto)) as made:
        yield made


@pytest.fixture
def watched(tmp_path: Path, azurite: Azurite) -> Iterator[tuple[FolderHome, Proxy]]:
    """As `mounting_home`, with Azurite behind a proxy, and that."""
    with proxied(azurite.port) as proxy:
        entry = azure_entry(azurite.one, f"http://127.0.0.1:{proxy.port}/{azurite.one.name}")
        with mounting(FolderHome(tmp_path, entry, azurite.one.key)) as made:
            yield made, proxy


def mounts(folder: Path) -> list[str]:
    """What is mounted below a folder."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if line.split()[4].startswith(f"{folder}/")]


@pytest.mark.root
def test_a_mounted_folder_is_read_and_written(mounting_home: FolderHome) -> None:
    mounting_home.put({"a/x": b"read me", "with blank": b"2"})
    script = "cat data/a/x; ls data; mkdir data/new; echo written > data/new/y; echo more >> data/new/y"
    done = mounting_home.run("sh", "-euc", script)
    assert done["state"] == "succeeded", done["detail"]
    assert mounting_home.log(done["id"]) == "read mea\nwith blank\n"
    stored = mounting_home.stored("data")
    assert stored == {"a/x": b"read me", "with blank": b"2", "new/y": b"written\nmore\n"}
    assert [one["step"] for one in mounting_home.events(done["id"]) if one["event"] == "folder"] == [
        "mounted",
        "unmounted",
    ]
    assert mounts(mounting_home.root) == []
    assert not (mounting_home.queue_home / "mounts" / done["id"]).exists()


@pytest.mark.root
def test_a_folder_to_be_read_only_is_not_written(mounting_home: FolderHome) -> None:
    mounting_home.put({"x": b"read me"})
    path = mounting_home.folder / "gofer.yaml"
    path.write_text(path.read_text().replace("'mount'", "'mount', read_only: yes"))
    script = "cat data/x; rm -f data/x || echo kept; touch data/y || echo refused"
    done = mounting_home.run("sh", "-c", script)
    assert done["state"] == "succeeded", done["detail"]
    assert mounting_home.log(done["id"]).splitlines()[0].startswith("read me")
    assert "kept" in mounting_home.log(done["id"]) and "refused" in mounting_home.log(done["id"])
    assert mounting_home.stored("data") == {"x": b"read me"}


@pytest.mark.root
def test_options_of_the_documents_reach_the_mount(mounting_home: FolderHome) -> None:
    """What was read stays in the cache on the disk, and the mode of files is the one of the options."""
    mounting_home.put({"x": b"read me"})
    write_options(
        mounting_home,
        "'-o', 'attr_timeout=240,umask=077', --log-level=LOG_WARNING, --file-cache-timeout-in-seconds=9999",
    )
    script = "cat data/x; echo; stat -Lc %a data/x; cd -P data; cat $(find ../cache/vfs -name x); echo"
    done = mounting_home.run("sh", "-c", f"{script}; echo new > y")
    assert done["state"] == "succeeded", done["detail"]
    assert mounting_home.log(done["id"]).splitlines() == ["read me", "600", "read me"]
    assert mounting_home.stored("data") == {"x": b"read me", "y": b"new\n"}
    assert mounts(mounting_home.root) == []


def write_options(home: FolderHome, options: str) -> None:
    path = home.folder / "gofer.yaml"
    path.write_text(path.read_text().replace("'mount'", f"'mount', options: [{options}]"))


def test_an_option_that_rclone_lacks_is_refused_with_the_nearest(tmp_path: Path, azurite: Azurite) -> None:
    home = FolderHome(tmp_path, azure_entry(azurite.one), azurite.one.key)
    home.map(data="mount")
    write_options(home, "negative_timeout=120, allow_other")
    done = home.gofer("submit", "true", status=2)
    assert "`options` of the folder `data`: `negative_timeout=120`: rclone has none" in done.err
    assert "the nearest is `dir-cache-time`" in done.err and "`allow_other`" in done.err
    assert "gofer.yaml:" in done.err
    home.map(data="copy")
    path = home.folder / "gofer.yaml"
    path.write_text(path.read_text().replace("'copy'", "'copy', options: [umask=077]"))
    refused = home.gofer("submit", "true", status=2)
    assert "`options` of the folder `data` are those of a mount" in refused.err
    home.close()


def test_a_folder_that_is_sent_cannot_be_read_only(tmp_path: Path, azurite: Azurite) -> None:
    home = FolderHome(tmp_path, azure_entry(azurite.one), azurite.one.key)
    home.map(out="upload")
    path = home.folder / "gofer.yaml"
    path.write_text(path.read_text().replace("'upload'", "'upload', read_only: true"))
    done = home.gofer("submit", "true", status=2)
    assert "the folder `out` is `read_only`, and `mode: upload` writes to it" in done.err
    assert "gofer.yaml:" in done.err
    home.close()


@pytest.mark.root
def test_what_a_failed_command_wrote_in_its_last_moment_is_in_the_store(mounting_home: FolderHome) -> None:
    script = "import os; open('data/z', 'wb').write(b'z' * 5_000_000); os._exit(9)"
    done = mounting_home.run("python", "-c", script)
    assert (done["reason"], done["exit_code"]) == ("exit-code", 9)
    assert mounting_home.stored("data") == {"z": b"z" * 5_000_000}


@pytest.mark.root
def test_an_abort_unmounts(mounting_home: FolderHome) -> None:
    run_id = mounting_home.begin("sh", "-c", "echo half > data/x; echo up; cd data; sleep 1000")
    mounting_home.until_logged(run_id, "up")
    assert len(mounts(mounting_home.root)) == 1
    mounting_home.gofer("abort", run_id)
    assert mounting_home.wait(run_id)[0]["state"] == "cancelled"
    assert mounts(mounting_home.root) == []
    assert mounting_home.stored("data") == {"x": b"half\n"}


@pytest.mark.root
def test_after_the_agent_was_killed_no_mount_is_left_and_nothing_in_the_store_is_gone(
    mounting_home: FolderHome,
) -> None:
    files = {f"f{number}": b"precious" for number in range(20)}
    mounting_home.put(files)
    run_id = mounting_home.begin("sh", "-c", "ls data; sleep 1000")
    os.kill(mounting_home.agent(run_id), signal.SIGKILL)
    assert mounting_home.wait(run_id)[0]["state"] == "lost"
    until(lambda: not mounts(mounting_home.root), "no mount")
    until(lambda: not os.listdir(mounting_home.queue_home / "work"), "no work folder")
    assert mounting_home.stored("data") == files


@pytest.mark.root
def test_after_a_power_cut_no_mount_is_left_and_nothing_in_the_store_is_gone(
    mounting_home: FolderHome,
) -> None:
    files = {f"f{number}": b"precious" for number in range(20)}
    mounting_home.put(files)
    run_id = mounting_home.begin("sh", "-c", "ls data; sleep 1000")
    mounting_home.agent(run_id)
    mounting_home.kill_all()
    assert len(mounts(mounting_home.root)) == 1  # of a program that is dead
    assert mounting_home.wait(run_id)[0]["state"] == "lost"
    until(lambda: not mounts(mounting_home.root), "no mount")
    assert mounting_home.stored("data") == files


@pytest.mark.root
def test_what_a_killed_agent_had_not_sent_is_kept(watched: tuple[FolderHome, Proxy]) -> None:
    home, proxy = watched
    proxy.faults = lambda request: Fault("stall") if request.method == "PUT" else None
    run_id = home.begin("sh", "-c", "echo precious > data/result; echo up; sleep 1000")
    home.until_logged(run_id, "up")
    os.kill(home.agent(run_id), signal.SIGKILL)
    assert home.wait(run_id)[0]["state"] == "lost"
    until(lambda: not os.listdir(home.queue_home / "work"), "no work folder")
    kept = home.queue_home / "unsent" / f"{run_id}.1-0.data"
    assert [path.read_text() for path in kept.glob("vfs/**/result")] == ["precious\n"]


@pytest.mark.root
def test_every_row_of_an_array_has_its_mount(mounting_home: FolderHome) -> None:
    group = mounting_home.begin("--each", "n=1..3", "sh", "-c", "echo {n} > data/{n}")
    assert mounting_home.wait(group)[0]["counts"] == {"succeeded": 3}
    assert mounting_home.stored("data") == {"1": b"1\n", "2": b"2\n", "3": b"3\n"}


@pytest.mark.root
def test_no_credential_is_in_the_words_of_a_process_or_in_what_a_run_leaves(
    mounting_home: FolderHome,
) -> None:
    run_id = mounting_home.begin("sh", "-c", "echo up; sleep 1000")
    mounting_home.until_logged(run_id, "up")
    words = "\n".join(mounting_home.processes().values())
    assert "rclone mount" in words
    key = mounting_home.environ["DUMMY_KEY"]
    assert key not in words
    assert "sig=" not in words
    mounting_home.gofer("abort", run_id)
    mounting_home.wait(run_id)
    until(lambda: not os.listdir(mounting_home.queue_home / "sealed"), "nothing sealed")
    until(lambda: not mounting_home.processes(), "every process to leave")
    left = [path for path in mounting_home.path.rglob("*") if path.is_file()]
    holding = [path for path in left if key.encode() in path.read_bytes() or b"sig=" in path.read_bytes()]
    assert holding == []


@pytest.mark.root
def test_a_store_that_is_away_is_found_before_the_mount(mounting_home: FolderHome) -> None:
    endpoint = mounting_home.entry["endpoint"]
    mounting_home.entry["endpoint"] = f"http://127.0.0.1:1/{endpoint.rpartition('/')[2]}"
    mounting_home.map(data="mount")
    done = mounting_home.run("true")
    assert (done["state"], done["reason"]) == ("failed", "staging")
    assert "connection refused" in done["detail"]


@pytest.mark.root
def test_what_was_written_and_cannot_be_sent_is_kept(watched: tuple[FolderHome, Proxy]) -> None:
    home, proxy = watched
    proxy.faults = lambda request: Fault("status", 403) if request.method == "PUT" else None
    run_id = home.begin("sh", "-c", "echo precious > data/result")
    until(lambda: any(one.method == "PUT" for one in proxy.requests), "the first try")
    home.gofer("abort", "--grace", "0s", run_id)
    done = home.wait(run_id)[0]
    kept = home.queue_home / "unsent" / f"{run_id}.1.0.data"
    assert done["detail"].endswith(
        f"1 of the files written there are not in the store; the unsent files are in {kept}"
    )
    assert [path.read_text() for path in kept.glob("vfs/**/result")] == ["precious\n"]


@pytest.mark.root
def test_without_a_mode_what_can_be_mounted_is(mounting_home: FolderHome) -> None:
    mounting_home.map(data=None)
    plan = json.loads(mounting_home.gofer("submit", "--dry-run", "true").out)
    assert plan["folders"]["data"]["mode"] == "mount"


def test_without_a_mount_program_a_mount_is_refused_and_the_alternatives_are_named(
    tmp_path: Path, azurite: Azurite, moto: Moto
) -> None:
    home = make("azure", tmp_path, azurite, moto)
    home.map(data="mount")
    done = home.gofer("submit", "true", status=1)
    assert "the folder `data` cannot be mounted: there is no `rclone` on the PATH" in done.err
    assert "`mode: copy`" in done.err
    assert "install rclone" in done.err
    assert json.loads(home.gofer("list", "runs", "--json").out) == []
    home.map(data=None)
    plan = json.loads(home.gofer("submit", "--dry-run", "true").out)
    assert plan["folders"]["data"]["mode"] == "copy"
    home.close()


def test_a_store_on_this_machine_needs_no_mount_program(file_home: FolderHome) -> None:
    file_home.map(data="mount")
    file_home.put({"x": b"1"})
    done = file_home.run("sh", "-euc", "cat data/x; echo 2 > data/y")
    assert done["state"] == "succeeded", done["detail"]
    assert file_home.stored("data") == {"x": b"1", "y": b"2\n"}


@pytest.mark.root
@pytest.mark.parametrize("prefix", [(), ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")])
def test_the_folder_itself_is_read_only_where_the_system_can(
    file_home: FolderHome, prefix: tuple[str, ...]
) -> None:
    """The store's folder and the person's own. The run's detail names a folder that refuses no write."""
    file_home.prefix = prefix
    path = file_home.folder / "gofer.yaml"
    for mode in ("mount", None):
        file_home.map(data=mode)
        path.write_text(re.sub(r"(data: \{[^}]*)\}", r"\1, read_only: true}", path.read_text()))
        if mode is None:
            own = file_home.folder / "data"
            (own / "deep").mkdir(parents=True)
            own.joinpath("x").write_text("1")
        else:
            file_home.put({"x": b"1", "deep/y": b"1"})
        done = file_home.run("sh", "-c", "cat data/x; echo 2 > data/x; rm data/x; echo 3 > data/deep/new")
        if mode is None:
            now = {one.name: one.read_bytes() for one in own.rglob("*") if one.is_file()}
        else:
            now = file_home.stored("data")
        log, note = file_home.log(done["id"]), "nothing refused a write to the read-only folder `data`"
        if prefix:
            assert "x" not in now and note in done["detail"]
        else:
            assert log.startswith("1") and log.count("Read-only file system") == 3
            assert "new" not in now and now["x"] == b"1" and note not in (done["detail"] or "")
    assert not list(file_home.path.glob("w/*/*/folders.*"))


def test_a_read_only_folder_that_refuses_no_write_is_named(file_home: FolderHome) -> None:
    """On another machine gofer cannot know at submit whether the user there may mount."""
    path = file_home.folder / "gofer.yaml"
    words = (
        "`read_only` of the folder `data` refuses no write: runs have the store's folder itself; `mode: copy`"
    )
    for mode in ("mount", "copy"):
        file_home.map(data=mode)
        text = re.sub(r"(data: \{[^}]*)\}", r"\1, read_only: true}", path.read_text())
        path.write_text(text + "targets: {away: {kind: ssh, hosts: [nowhere]}}\n")
        done = file_home.gofer("submit", "--dry-run", "-t", "away", "true", status=None)
        assert (words in done.err) == (mode == "mount")


@pytest.mark.root
def test_nothing_is_ever_deleted_through_a_mount(tmp_path: Path) -> None:
    precious, state = tmp_path / "precious", tmp_path / "engine/mounts/request/one"
    precious.mkdir()
    (precious / "file").write_text("x")
    (state / "at").mkdir(parents=True)
    subprocess.run(["mount", "--bind", precious, state / "at"], check=True)
    try:
        unmount.remove(str(state))  # as if the unmounting before it had failed
        assert (precious / "file").read_text() == "x"
        assert unmount.is_mounted(str(state / "at"))
    finally:
        subprocess.run(["umount", state / "at"], check=True)
    unmount.clear(str(tmp_path / "engine"), "request")
    assert not state.exists()
    assert (precious / "file").read_text() == "x"


@pytest.mark.root
def test_a_mount_that_an_agent_holds_is_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "engine/mounts/request/one"
    (state / "at").mkdir(parents=True)
    (state / "lock").touch()
    with subprocess.Popen(["flock", state / "lock", "sh", "-c", "echo held; exec cat"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:  # fmt: skip
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        subprocess.run(["mount", "-t", "tmpfs", "none", state / "at"], check=True)
        unmount.clear(str(tmp_path / "engine"), "request")
        assert unmount.is_mounted(str(state / "at"))
        holder.communicate(b"")
    unmount.clear(str(tmp_path / "engine"), "request")
    assert not unmount.is_mounted(str(state / "at"))
    assert not state.exists()
