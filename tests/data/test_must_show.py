"""Each data line of the older tools' document, as printed, against two accounts of an emulator."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path

import pytest
from data.project import Project, same
from data.seeds import write_account, write_cluster
from home import until
from services.azurite import Account, Azurite
from services.proxy import Fault, Proxy, Request, proxied

import gofer

pytestmark = pytest.mark.xdist_group("data-azurite")


@pytest.fixture
def seeds(tmp_path: Path, azurite: Azurite) -> Iterator[Project]:
    """A project with the clusters c1 and c2, the one opened by a key and the other by a SAS."""
    made = Project(tmp_path)
    one, two = azurite.one.new_container("one"), azurite.two.new_container("two")
    write_cluster(made.folder, "c1", "one_account")
    write_cluster(made.folder, "c2", "two_account")
    write_cluster(made.folder, "aml", "one_account")
    write_account(made.folder, "one_account", account(azurite.one, one, f"account_key: {azurite.one.key}"))
    token = azurite.two.container_sas(two, "rwdl")
    write_account(made.folder, "two_account", account(azurite.two, two, f"sas_token: ?{token}"))
    yield made
    made.close()


def account(of: Account, container: str, opened_by: str) -> str:
    """The file as the document shows it, and the one key more that an emulator needs."""
    return f"account_name: {of.name}\n{opened_by}\ncontainer_name: {container}\nendpoint: {of.endpoint}\n"


@contextmanager
def through_a_proxy(project: Project, azurite: Azurite, *, latency_s: float = 0.0) -> Iterator[Proxy]:
    """Within, both accounts are reached through the proxy; the emulator copies only within one address."""
    files = {path: path.read_text() for path in (project.folder / "aux_data/configs").iterdir()}
    with proxied(azurite.port, latency_s) as proxy:
        for path, text in files.items():
            path.write_text(text.replace(f":{azurite.port}/", f":{proxy.port}/"))
        yield proxy
    for path, text in files.items():
        path.write_text(text)


def to_the_end(process: subprocess.Popen[bytes]) -> None:
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err


def test_up_list_across_and_down(seeds: Project) -> None:
    seeds.fill("data/voc20", 100)
    seeds.write("data/voc20/large.bin", random.Random(1).randbytes(20 << 20))
    seeds.process("-c", "c1", "u", "data/voc20")
    listed = seeds.process("-c", "c1", "ls", "data/voc20")
    assert "data/voc20/run.sh" in listed.out
    assert "20.0 MiB" in listed.out
    seeds.process("-c", "c2", "-f", "c1", "u", "data/voc20")
    before = seeds.away("data/voc20")
    seeds.process("-c", "c2", "d", "data/voc20")
    same(before, seeds.data / "voc20")
    for words in (["-c", "c2", "d"], ["-c", "c1", "u"], ["-c", "c2", "-f", "c1", "u"], ["-c", "c1", "d"]):
        assert "nothing to do: 114 files are there already" in seeds.gofer(*words, "data/voc20").err


def test_every_data_line_of_the_document(seeds: Project) -> None:
    """`alias a=gofer`; without `-c` the file is aml.yaml."""
    seeds.fill("data/voc20")
    seeds.fill("data/coco")
    write_cluster(seeds.folder, "eu", "two_account")
    write_cluster(seeds.folder, "we3v32", "one_account")
    seeds.gofer("u", "data/voc20")
    seeds.gofer("u", "data/coco")
    assert len(seeds.paths("-r", "data/voc20")) == 33
    before = seeds.away("data/coco")
    seeds.gofer("d", "data/coco")
    same(before, seeds.data / "coco")
    seeds.gofer("rm", "--yes", "data/coco")
    assert "there is nothing at `data/coco`" in seeds.gofer("ls", "data/coco", status=1).err
    seeds.gofer("-c", "eu", "-f", "we3v32", "u", "data/voc20")
    assert seeds.gofer("-c", "eu", "ls", "-r", "data").out.count("\n") == 33


def test_single_files_across_accounts(seeds: Project) -> None:
    seeds.write("data/a b#?%.bin", b"odd")
    seeds.gofer("-c", "c1", "u", "data/a b#?%.bin")
    seeds.gofer("-c", "c2", "-f", "c1", "u", "data/a b#?%.bin")
    assert seeds.gofer("-c", "c2", "cat", "data/a b#?%.bin").out == "odd"
    seeds.gofer("-c", "c1", "rm", "-y", "data/a b#?%.bin")
    seeds.gofer("-c", "c1", "-f", "c2", "u", "data/a b#?%.bin")
    assert seeds.gofer("-c", "c1", "cat", "data/a b#?%.bin").out == "odd"
    done = seeds.gofer("-c", "c2", "-f", "c1", "u", "data/absent", status=1)
    assert "there is nothing at `data/absent`" in done.err
    assert "overlap" in seeds.gofer("-c", "c1", "-f", "aml", "u", "data", status=2).err


def test_the_services_copy_by_themselves(seeds: Project, azurite: Azurite) -> None:
    """Nothing of the object is sent from here: one service fetches it from the other."""
    seeds.write("data/large", random.Random(2).randbytes(30 << 20))
    seeds.gofer("-c", "c1", "u", "data/large")
    with through_a_proxy(seeds, azurite) as proxy:
        seeds.gofer("-c", "c2", "-f", "c1", "u", "data/large")
        assert proxy.bytes_up < 1 << 20
        assert [request for request in proxy.requests if "x-ms-copy-source" in request.headers]
    seeds.away("data")
    seeds.gofer("-c", "c2", "d", "data/large")
    assert (seeds.data / "large").read_bytes() == (seeds.root / "away-data/large").read_bytes()


def test_packs_across_accounts(seeds: Project) -> None:
    seeds.fill("data/voc20", 200)
    seeds.gofer("-c", "c1", "u", "--pack", "data/voc20")
    summary = json.loads(seeds.gofer("-c", "c2", "-f", "c1", "u", "--json", "data/voc20").out)
    assert summary["files"] == 2
    before = seeds.away("data/voc20")
    seeds.gofer("-c", "c2", "d", "data/voc20")
    same(before, seeds.data / "voc20")
    assert len(seeds.paths("-c", "c2", "-r", "data/voc20/part1")) == 67


def test_a_signed_address_opens_the_file_for_anybody(seeds: Project) -> None:
    from urllib.request import urlopen

    seeds.write("data/x y", b"signed")
    seeds.gofer("-c", "c1", "u", "data/x y")
    url = seeds.gofer("-c", "c1", "url", "--expires", "5m", "data/x y").out.strip()
    with urlopen(url, timeout=60) as answer:
        assert answer.read() == b"signed"


def test_no_credential_is_printed_or_kept(seeds: Project, azurite: Azurite) -> None:
    seeds.write("data/a", b"1")
    output = [seeds.gofer("--debug", "-c", name, "u", "data/a") for name in ("c1", "c2")]
    output += [seeds.gofer("--debug", "-c", "c2", "-f", "c1", "u", "data/a")]
    output += [seeds.gofer("--debug", "-c", "c1", "d", "data/absent", status=1)]
    texts = [done.out + done.err for done in output]
    texts += [path.read_text(errors="replace") for path in seeds.path.rglob("*") if path.is_file()]
    token = (seeds.folder / "aux_data/configs/two_account.yaml").read_text().split("sig=")[1].split("\n")[0]
    assert len(token) > 20
    for text in texts:
        assert azurite.one.key not in text
        assert token not in text
        assert "sig=" not in text


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_in_the_middle_of_a_gigabyte_the_second_run_sends_the_rest(
    seeds: Project, azurite: Azurite
) -> None:
    size = 1 << 30
    path = seeds.write("data/big")
    piece = random.Random(3).randbytes(1 << 20)
    with open(path, "wb") as file:
        for number in range(size >> 20):
            file.write(number.to_bytes(8, "big") + piece[8:])
    with through_a_proxy(seeds, azurite) as proxy:
        process = seeds.start("-c", "c1", "u", "data/big")
        until(lambda: proxy.bytes_up > 300 << 20, "300 MiB are up", timeout_s=500)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        time.sleep(0.5)
        first = proxy.bytes_up
        assert first < size
        proxy.forget()
        to_the_end(seeds.start("-c", "c1", "u", "data/big"))
        # What was in flight at the kill is sent again: at most a handful of blocks.
        assert proxy.bytes_up < size - first + (200 << 20)
        assert proxy.bytes_up < size * 0.9
    before = seeds.away("data/big")
    to_the_end(seeds.start("-c", "c1", "d", "data/big"))
    same(before, seeds.data / "big")


KINDS = [
    Fault("reset"),
    Fault("status", 503),
    Fault("truncate"),
    Fault("drip", seconds=0.4),
    Fault("status", 429, retry_after="0"),
    Fault("lost"),
]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_faults_and_every_byte_right(seeds: Project, azurite: Azurite) -> None:
    chance = random.Random(4)
    for number in range(2000):
        seeds.write(f"data/many/{number % 20}/{number}", chance.randbytes(chance.randrange(8000)))
    with through_a_proxy(seeds, azurite) as proxy:

        def faults(request: Request) -> Fault | None:
            return KINDS[request.number // 20 % len(KINDS)] if request.number % 20 == 7 else None

        proxy.faults = faults
        to_the_end(seeds.start("-c", "c1", "u", "data/many"))
        before = seeds.away("data/many")
        to_the_end(seeds.start("-c", "c1", "d", "data/many"))
        assert proxy.injected >= 200
    same(before, seeds.data / "many")
    assert not [path for path in seeds.data.rglob(".gofer-part-*")]


def test_interrupted_a_download_leaves_nothing_half_named(seeds: Project, azurite: Azurite) -> None:
    for number in range(50):
        seeds.write(f"data/x/{number}", os.urandom(100_000))
    seeds.gofer("-c", "c1", "u", "data/x")
    before = seeds.away("data/x")
    with through_a_proxy(seeds, azurite) as proxy:
        proxy.faults = lambda request: Fault("stall") if request.number >= 25 else None
        process = seeds.start("-c", "c1", "d", "data/x", "-j", "4")
        until(lambda: len(proxy.requests) > 25, "some files are down")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
    found = [path for path in (seeds.data / "x").rglob("*") if not path.name.startswith(".gofer-part-")]
    assert 0 < len(found) < 50
    for path in found:
        assert path.read_bytes() == (before / path.name).read_bytes()
    seeds.gofer("-c", "c1", "d", "data/x")
    same(before, seeds.data / "x")
    assert not list(seeds.data.rglob(".gofer-part-*"))


def read(folder: gofer.PackedFolder, name: str) -> bytes:
    return folder[name]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_loader_read_packs_one_request_a_file(
    seeds: Project, azurite: Azurite, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    seeds.fill("data/voc20", 50)
    seeds.gofer("-c", "c1", "u", "--pack", "data/voc20")
    resource_tracker.ensure_running()  # it outlives the test, so it must not look like one of its processes
    for name, value in seeds.environ.items():
        monkeypatch.setenv(name, value)
    with through_a_proxy(seeds, azurite) as proxy:
        folder = gofer.PackedFolder("data/voc20", target="c1", folder=seeds.folder)
        assert folder["run.sh"] == b"#!/bin/sh\n"
        names = [name for name in folder.names if folder.size(name)]
        proxy.forget()
        with multiprocessing.get_context(method).Pool(2) as pool:
            found = pool.starmap(read, [(folder, name) for name in names])
            again = pool.starmap(read, [(folder, name) for name in names])
        assert 2 * len(names) <= len(proxy.requests) <= 2 * len(names) + 8
        proxy.forget()
        for name in names:
            with gofer.open(f"data/voc20/{name}", target="c1", folder=seeds.folder) as file:
                file.read()
        # The index of a folder that was opened is known. A server may hang up on an idle connection.
        assert len(names) <= len(proxy.requests) <= len(names) + 4
    wanted = [(seeds.data / "voc20" / name).read_bytes() for name in names]
    assert found == again == wanted
    assert azurite.one.key.encode() not in pickle.dumps(folder)
