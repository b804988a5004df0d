"""Runs whose folder is in an object store: Azurite and an S3 server, seen from here and from elsewhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from home import Home, until
from services.azurite import Account, Azurite
from services.fixtures import azurite as azurite
from services.fixtures import moto as moto
from services.moto import Moto
from services.proxy import Fault, proxied

from gofer.core import run_layout
from gofer.ops.session import Session
from gofer.storage.base import Store, Streams

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("object-store-runs")]


class ObjectStoreHome(Home):
    """A home whose `local` target keeps its runs in an object store."""

    def __init__(self, root: Path, stores: str) -> None:
        super().__init__(root)
        self.configure(f"targets:\n  local: {{kind: local, store: blob}}\nstores:\n  blob: {stores}\n")

    def blobs(self) -> Store:
        """The store as it is, parts and all."""
        return Session(self.folder, self.environ).store("blob")

    def keys(self, run_id: str) -> list[str]:
        return [info.key for info in self.blobs().list(run_layout.run_key(run_id))]

    def text(self, key: str) -> str:
        return self.blobs().get(key).decode()


@pytest.fixture(params=["azure", "s3"])
def stores(request: pytest.FixtureRequest, azurite: Azurite, moto: Moto) -> str:
    """The `blob:` entry of gofer.yaml, with a place of its own."""
    if request.param == "azure":
        account = azurite.one
        values = {"url": f"az://{account.new_container()}/pre", "account": account.name}
        values |= {"key": "${env:DUMMY_KEY}", "endpoint": account.endpoint}
    else:
        values = {"url": f"s3://{moto.new_bucket()}/pre", "endpoint": moto.endpoint}
        values |= {"access_key": moto.access_key, "secret_key": "${env:DUMMY_KEY}"}
    return "{" + ", ".join(f"{name}: '{value}'" for name, value in values.items()) + "}"


@pytest.fixture
def home(tmp_path: Path, stores: str, azurite: Azurite, moto: Moto) -> Iterator[ObjectStoreHome]:
    made = ObjectStoreHome(tmp_path / "one", stores)
    made.environ["DUMMY_KEY"] = azurite.one.key if "az://" in stores else moto.secret_key
    yield made


def elsewhere(home: ObjectStoreHome, stores: str) -> ObjectStoreHome:
    """Another home with the same settings and an empty ledger."""
    other = ObjectStoreHome(home.root.parent / "two", stores)
    other.environ["DUMMY_KEY"] = home.environ["DUMMY_KEY"]
    return other


def test_a_run_continues_from_another(home: ObjectStoreHome) -> None:
    """Files, links and outputs come from the store to the node; extract gives them back as they were."""
    script = (
        "cat ck/step $0/step latest 2>/dev/null; mkdir -p ck empty; echo step >> ck/step; chmod 750 ck/step; "
        "echo step >> $0/step; ln -sf ck/step latest; truncate -s 8M hole"
    )
    first = home.finish("sh", "-c", script, "{output}")
    assert home.log(first["id"]) == ""
    new = home.gofer("resubmit", "-Q", "--continue", first["id"]).out.strip()
    home.gofer("wait", "-Q", new)
    assert home.log(new) == "step\n" * 3
    home.gofer("extract", new, "out")
    out = home.folder / "out"
    assert (out / "files/ck/step").read_text() == (out / "outputs/step").read_text() == "step\nstep\n"
    assert os.readlink(out / "files/latest") == "ck/step"
    assert (out / "files/ck/step").stat().st_mode & 0o777 == 0o750
    assert (out / "files/empty").is_dir()
    assert (out / "files/hole").stat().st_blocks * 512 < 1 << 20
    assert "step" in home.gofer("cat", f"{new}:ck/step").out


def until_text(home: ObjectStoreHome, run_id: str, text: str) -> None:
    """Until the run's first log in the store, whole or in parts, holds this."""
    key = f"{run_layout.node_key(run_id, 1, 0)}/{run_layout.rank_log(0)}"

    def is_uploaded() -> bool:
        return text in "".join(home.text(one) for one in home.keys(run_id) if one.startswith(key))

    until(is_uploaded, f"{text!r} in {key}")


def test_code_logs_and_outputs_go_through_the_store(home: ObjectStoreHome, stores: str) -> None:
    (home.folder / "job.sh").write_text('echo from the code; mkdir "$GOFER_OUTPUT_DIR/d"; echo 7 > "$_/x"')
    done = home.gofer("submit", "-Q", "--wait", "--json", "bash", "job.sh")
    run = home._parsed(done)
    assert run["state"] == "succeeded"
    assert home.log(run["id"]) == "from the code\n"
    assert home.text(f"runs/{run['id']}/outputs/d/x") == "7\n"
    assert not [key for key in home.keys(run["id"]) if ".parts/" in key]
    assert not (home.queue_home / "spool" / run["id"]).exists()
    there = home.root / "there"
    home.gofer("extract", run["id"], str(there))
    assert (there / "outputs/d/x").read_text() == "7\n"


def test_files_beside_the_code_go_to_the_store_and_back_for_a_retry(home: ObjectStoreHome) -> None:
    script = (
        "read n 2>/dev/null < ck/step || n=0; echo from $n; mkdir -p ck; echo $((n + 1)) > ck/step; "
        "ln -sf ck/step latest; echo x > train.log; rm -f only-$n; [ $n = 1 ] || { touch only-1; exit 1; }"
    )
    run = home.finish("--retries", "2", "sh", "-c", script)
    assert run["state"] == "succeeded"
    assert home.log(run["id"]) == "from 1\n"
    top = run_layout.files_key(run["id"])
    assert {key for key in home.keys(run["id"]) if key.startswith(top)} == {
        f"{top}/ck/step",
        f"{top}/train.log",
    }
    assert home.text(f"{top}/ck/step") == "2\n"
    listed = home.text(f"{run_layout.node_key(run['id'], 2, 0)}/{run_layout.FILE_LIST}")
    assert '"latest","l"' in listed


def test_a_running_run_is_seen_from_another_home(home: ObjectStoreHome, stores: str) -> None:
    flag = home.root / "go"
    script = f"seq 1 300; while [ ! -e {flag} ]; do sleep 0.1; done; echo the end"
    run_id = home.submit("bash", "-c", script)
    until_text(home, run_id, "300\n")
    other = elsewhere(home, stores)
    shown = other.gofer("q", run_id[-6:])
    assert "running" in shown.out
    assert shown.out.startswith("\n".join(str(number) for number in range(201, 301)))
    flag.touch()
    home.wait(run_id)
    assert other.view(run_id)["state"] == "succeeded"
    assert other.log(run_id).endswith("300\nthe end\n")
    assert run_id[-6:] in other.gofer("list", "runs").out
    # It was only looked at: nothing of it was started over there.
    assert not other.queue_home.exists() or not list(other.queue_home.glob("spool/*"))


def test_all_runs_are_found_everywhere(home: ObjectStoreHome, stores: str) -> None:
    single = home.finish("true")["id"]
    group = home.submit("--each", "n=1,2", "sh", "-c", "exit {n}")
    home.wait(group)
    other = elsewhere(home, stores)
    assert "--everywhere" in other.gofer("list", "runs").err
    listed = other.gofer("list", "runs", "--everywhere", "--json")
    assert {single, group} <= set(listed.out.split('"'))
    row = other.view(f"{group[-6:]}-1")
    assert (row["state"], row["exit_code"]) == ("failed", 2)
    assert "no run has the id or the name" in other.gofer("q", "r999999", status=2).err


def test_sync_patterns_are_sent_while_the_run_runs(home: ObjectStoreHome) -> None:
    flag = home.root / "go"
    script = (
        f"cd $GOFER_OUTPUT_DIR; echo 1 > a.ckpt; echo 2 > b.txt; while [ ! -e {flag} ]; do sleep 0.1; done"
    )
    run_id = home.submit("--sync", "*.ckpt", "bash", "-c", script)
    outputs = run_layout.outputs_key(run_id)
    until(lambda: f"{outputs}/a.ckpt" in home.keys(run_id), "a.ckpt in the store")
    assert f"{outputs}/b.txt" not in home.keys(run_id)
    flag.touch()
    home.wait(run_id)
    assert home.text(f"{outputs}/b.txt") == "2\n"


def test_a_log_that_is_followed_comes_whole(home: ObjectStoreHome) -> None:
    run_id = home.submit("bash", "-c", "for i in $(seq 1 40); do echo line $i; sleep 0.15; done")
    assert home.log(run_id, "-f").splitlines() == [f"line {number}" for number in range(1, 41)]


def test_files_arrive_although_every_process_is_killed(home: ObjectStoreHome) -> None:
    flag = home.root / "go"
    script = f"echo before; while [ ! -e {flag} ]; do sleep 0.1; done; echo after"
    run_id = home.submit("bash", "-c", script)
    until_text(home, run_id, "before")
    for pid in [home.supervisor(), *(pid for pid, words in home.processes().items() if "supervise" in words)]:
        if pid is not None and pid != agent_of(home, run_id):
            with suppress(ProcessLookupError):  # an agent without a supervisor ends
                os.kill(pid, signal.SIGKILL)
    flag.touch()
    assert home.wait(run_id)[0]["state"] == "succeeded"
    assert home.log(run_id) == "before\nafter\n"


def agent_of(home: ObjectStoreHome, run_id: str) -> int:
    from gofer.core import attempts

    who = attempts.agent_of(str(home.queue_home / "spool" / run_id), run_id, 1, 0)
    assert who is not None
    return who.pid


def test_many_outputs_do_not_wait_for_each_other(tmp_path: Path, azurite: Azurite) -> None:
    with proxied(azurite.port, 0.05) as line:
        endpoint = azurite.one.endpoint.replace(f":{azurite.port}/", f":{line.port}/")
        home = by_sas(tmp_path, azurite.one, azurite.one.new_container(), endpoint)
        run = home.finish("bash", "-c", "cd $GOFER_OUTPUT_DIR; for i in $(seq 300); do echo $i > $i; done")
        assert run["state"] == "succeeded"
        assert line.most_connections > 8
        outputs = run_layout.outputs_key(run["id"])
        assert len([key for key in home.keys(run["id"]) if key.startswith(outputs)]) == 300


def test_a_store_that_is_away_for_a_while_gets_everything_later(tmp_path: Path, azurite: Azurite) -> None:
    account, flag = azurite.one, tmp_path / "go"
    with proxied(azurite.port) as line:
        endpoint = account.endpoint.replace(f":{azurite.port}/", f":{line.port}/")
        home = by_sas(tmp_path, account, account.new_container(), endpoint)
        run_id = home.submit("bash", "-c", f"echo one; while [ ! -e {flag} ]; do sleep 0.1; done; echo two")
        until_text(home, run_id, "one")
        line.faults = lambda request: Fault("reset")
        flag.touch()
        until(lambda: line.injected > 3, "a request while the store was unreachable")
        line.faults = lambda request: None
        assert home.wait(run_id)[0]["state"] == "succeeded"
        assert home.log(run_id) == "one\ntwo\n"


def test_what_a_store_does_not_take_is_kept_here(tmp_path: Path, azurite: Azurite) -> None:
    container, flag = azurite.one.new_container(), tmp_path / "go"
    home = by_sas(tmp_path, azurite.one, container, azurite.one.endpoint)
    run_id = home.submit("bash", "-c", f"echo one; while [ ! -e {flag} ]; do sleep 0.1; done; echo two")
    until_text(home, run_id, "one")
    azurite.one.client().delete_container(container)
    flag.touch()
    run = home.wait(run_id)[0]
    assert run["state"] == "succeeded"
    assert "could not be sent to the store" in run["detail"]
    kept = home.queue_home / "unsent" / run_id
    assert str(kept) in run["detail"]
    assert (kept / "attempts/1/node-0/rank-0.log").read_text() == "one\ntwo\n"


def test_what_cannot_be_kept_at_once_is_kept_later(tmp_path: Path, azurite: Azurite) -> None:
    container, flag = azurite.one.new_container(), tmp_path / "go"
    home = by_sas(tmp_path, azurite.one, container, azurite.one.endpoint)
    run_id = home.submit("bash", "-c", f"echo one; while [ ! -e {flag} ]; do sleep 0.1; done; echo two")
    until_text(home, run_id, "one")
    azurite.one.client().delete_container(container)
    unsent, log = home.queue_home / "unsent", home.queue_home / "supervisor.log"
    unsent.write_text("a file in the way of the folder")
    flag.touch()
    until(lambda: "could not be saved" in log.read_text(), "the word that the files could not be saved")
    assert home.view(run_id)["state"] == "running"
    unsent.unlink()
    assert str(unsent / run_id) in home.wait(run_id)[0]["detail"]
    assert (unsent / run_id / "attempts/1/node-0/rank-0.log").read_text() == "one\ntwo\n"
    assert log.read_text().count("could not be saved") == 1


def by_sas(root: Path, account: Account, container: str, endpoint: str) -> ObjectStoreHome:
    """A home that opens the container with a SAS."""
    values = (
        f"{{url: 'az://{container}', account: {account.name}, endpoint: '{endpoint}', sas: '${{env:DUMMY}}'}}"
    )
    home = ObjectStoreHome(root / "one", values)
    home.environ["DUMMY"] = account.container_sas(container)
    return home


def test_the_tail_of_a_large_log_costs_little(tmp_path: Path, azurite: Azurite) -> None:
    """One GiB, as it lies there after the run and as it does while the run writes it."""
    account, container = azurite.one, azurite.one.new_container()
    direct = by_sas(tmp_path / "direct", account, container, account.endpoint).blobs()
    assert isinstance(direct, Streams)
    with proxied(azurite.port) as line:
        endpoint = account.endpoint.replace(f":{azurite.port}/", f":{line.port}/")
        home = by_sas(tmp_path, account, container, endpoint)
        run_id = home.finish("true")["id"]
        log = f"{run_layout.node_key(run_id, 1, 0)}/{run_layout.rank_log(0)}"
        block = b"".join(b"%063d\n" % number for number in range(1 << 16))
        assert direct.put_stream(log, (block for _ in range(256))) == 1 << 30
        expected = block[-6400:].decode()
        line.forget()
        assert home.log(run_id, "--tail", "100") == expected
        assert line.bytes_down < 2 << 20, line.bytes_down
        direct.delete([log])
        for number in range(256):
            direct.put(run_layout.part_key(log, number << 22), block)
        line.forget()
        assert home.log(run_id, "--tail", "100") == expected
        assert line.bytes_down < 2 << 20, line.bytes_down


@pytest.mark.parametrize("words", [["q"], ["q", "--json"], ["q", "--no-logs"], ["why"], ["logs"]])
def test_a_run_is_listed_once(tmp_path: Path, azurite: Azurite, words: list[str]) -> None:
    """Also while its log is still in parts."""
    with proxied(azurite.port) as line:
        endpoint = azurite.one.endpoint.replace(f":{azurite.port}/", f":{line.port}/")
        home = by_sas(tmp_path, azurite.one, azurite.one.new_container(), endpoint)
        script = "echo one; echo two > $GOFER_OUTPUT_DIR/out; echo three > beside; exit 3"
        run_id = home.finish("sh", "-c", script)["id"]
        log = f"{run_layout.node_key(run_id, 1, 0)}/{run_layout.rank_log(0)}"
        for is_in_parts in (False, True):
            if is_in_parts:
                home.blobs().delete([log])
                home.blobs().put(run_layout.part_key(log, 0), b"one\n")
            line.forget()
            shown = home.gofer(*words, run_id).out
            assert "one" in shown or "--no-logs" in words or "--json" in words
            listings = [request.path for request in line.requests if "comp=list" in request.path]
            assert len(listings) == 1, listings


def test_an_array_ends_with_one_list_of_ends(home: ObjectStoreHome) -> None:
    group = home.submit("--each", "n=" + ",".join(str(number) for number in range(20)), "echo", "{n}")
    assert home.wait(group)[0]["counts"] == {"succeeded": 20}
    ends = home.text(run_layout.ends_key(group)).splitlines()
    assert len(ends) == 20
    assert not [key for key in home.keys(group) if ".parts/" in key]
    assert home.log(f"{group}-7") == "7\n"


def test_nothing_stays_behind(home: ObjectStoreHome) -> None:
    home.finish("true")
    until(lambda: not home.processes(), "no process of this home")
    for name in ("spool", "sealed", "work"):
        assert not list((home.queue_home / name).glob("*")), name


def test_no_credential_is_written_down(home: ObjectStoreHome) -> None:
    run_id = home.submit("--dry-run", "true")
    home.finish("sh", "-c", "env; sleep 0.1")
    until(lambda: not home.processes(), "no process that could write")
    secret = home.environ["DUMMY_KEY"]
    assert secret not in run_id
    log = (home.queue_home / "supervisor.log").read_text()
    assert secret not in log and "sig=" not in log


def test_a_secret_that_a_command_prints_never_reaches_the_store(home: ObjectStoreHome) -> None:
    home.environ["CANARY"] = "canary-77-not-a-real-secret"
    gate = home.root / "gate"
    script = f'echo "with $TOKEN"; until [ -e {gate} ]; do sleep 0.1; done; echo "$TOKEN"; exit 3'
    run = home.submit("-e", "TOKEN=${env:CANARY}", "sh", "-c", script)
    until_text(home, run, "with ****")
    gate.touch()
    home.wait(run)
    texts = {key: home.text(key) for key in home.keys(run)}
    assert [key for key, text in texts.items() if home.environ["CANARY"] in text] == []
    assert home.log(run) == f"with {'*' * 27}\n{'*' * 27}\n"


def test_a_run_is_read_and_stopped_from_any_folder(home: ObjectStoreHome, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run_id = home.submit("bash", "-c", "echo there; exec sleep 600")
    until_text(home, run_id, "there")
    assert home.gofer("logs", run_id, cwd=elsewhere).out == "there\n"
    assert "there" in home.gofer("q", run_id, cwd=elsewhere).out
    # The ledger has the store's address and the references to its secrets, and no key.
    home.configure("")
    home.gofer("tag", run_id, "x=1", cwd=elsewhere)
    assert home.gofer("abort", "--grace", "0s", run_id, cwd=elsewhere).out == f"{run_id} cancelled\n"
    home.gofer("extract", run_id, str(elsewhere / "out"), cwd=elsewhere)
    assert home.environ["DUMMY_KEY"] not in (home.path / "ledger.db").read_bytes().decode("latin-1")
    again = home.gofer("resubmit", "-Q", run_id, cwd=elsewhere).out.strip()
    assert home.gofer("abort", "--grace", "0s", again, cwd=elsewhere).out == f"{again} cancelled\n"


def test_standard_input_and_a_secret_file_reach_the_node(home: ObjectStoreHome) -> None:
    assert home.finish_with_input() == "600\nfrom here\nSHOWN=abc\nKEY=***********\n"


def test_ranks_and_rows_are_followed_while_their_logs_are_in_parts(home: ObjectStoreHome) -> None:
    """The nodes note the length of the logs after two seconds: the note is in the store too."""
    script = "echo first $RANK; sleep 5; echo last $RANK"
    run = home.submit("--procs", "2", "sh", "-c", script)
    followed = home.gofer("logs", "-f", run, "--rank", "all").out.splitlines()
    lines = [f"[{rank}] {word} {rank}" for rank in (0, 1) for word in ("first", "last")]
    assert sorted(followed) == lines and " first " in followed[0]
    assert home.log(run, "--rank", "all", "--since", "1h").splitlines() == lines
    notes = home.text(f"{run_layout.node_key(run, 1, 0)}/{run_layout.LOG_TIMES}").splitlines()
    assert '"sizes":{"0":8,"1":8}' in notes[0]

    words = ("--each", "i=0..2", "sh", "-c", "echo row {i}; sleep 1; echo end {i}")
    done = home.gofer("submit", "-f", "--no-code", *words)
    lines = [f"[{row}] {word} {row}" for row in range(3) for word in ("row", "end")]
    assert sorted(done.out.splitlines()) == sorted(lines)
    assert home.log("last").splitlines() == lines


def test_a_set_up_that_fails_is_shown_once(home: ObjectStoreHome) -> None:
    """First as it grows, with a label; what was shown then does not come again as the log of the run."""
    setup = "echo the first line; sleep 8; echo the last line; false"
    done = home.gofer("submit", "-f", "--no-code", "--setup", setup, "true", status=None)
    assert done.status != 0
    shown = (done.err + done.out).splitlines()
    assert "[setup] the first line" in shown
    # The last line is also the reason in what is said of the end.
    assert [line.removeprefix("[setup] ") for line in shown].count("the first line") == 1
    assert [line.removeprefix("[setup] ") for line in shown].count("the last line") == 1


def test_an_elastic_run_leaves_its_generations_and_no_lease(home: ObjectStoreHome) -> None:
    script = 'test $GOFER_GENERATION = 2 || exit 3; echo "$NODE_RANK" > "$GOFER_OUTPUT_DIR/$RANK"'
    ended = home.finish("--nodes", "2:2", "--procs", "1", "--retries", "1", "sh", "-c", script)
    assert (ended["state"], len(ended["attempts"])) == ("succeeded", 2), ended
    keys = {key.partition(f"{ended['id']}/")[2] for key in home.keys(ended["id"])}
    assert {"outputs/0", "outputs/1", "attempts/2/node-1/exit.json", "attempts/2/generation.json"} <= keys
    assert not any("lease" in key for key in keys)
    assert "has already ended" in home.gofer("scale", ended["id"], "2", status=1).err
