"""kill -9 in the middle, and again: only the rest moves, and nothing half-done bears a final name."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from services.azurite import Azurite
from services.moto import Moto
from services.proxy import Fault, Proxy, Request, proxied
from transfer import worker
from transfer.conftest import azure_store, s3_store
from transfer.transfers import counts, down, move, up
from transfer.trees import LONG_AGO_S, many, noise, read, write

from gofer.storage.base import Store
from gofer.storage.memory import MemoryStore
from gofer.transfer import LocalEnd, StoreEnd

BLOCK = 8 << 20
LARGE = noise(10 * BLOCK + 4321, seed=3)
# Requests that carry no file content: listings, commits, heads.
TALK = 100_000


class Site:
    """A server behind a proxy, and a container there."""

    def __init__(
        self, proxy: Proxy, through: Store, direct: Store, job_store: tuple[str, dict[str, str]]
    ) -> None:
        self.proxy = proxy
        self.through = through
        self.direct = direct
        self.job_store = job_store


@pytest.fixture(params=["azure", "s3"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if request.param == "azure":
        server: Azurite = request.getfixturevalue("azurite")
        one, container = server.one, server.one.new_container()
        with proxied(server.port) as proxy:
            options = {
                "account": one.name,
                "key": one.key,
                "endpoint": f"http://127.0.0.1:{proxy.port}/{one.name}",
            }
            through = azure_store(one, container=container, port=proxy.port)
            direct = azure_store(one, container=container)
            yield Site(proxy, through, direct, (f"az://{container}/some/folder", options))
    else:
        moto: Moto = request.getfixturevalue("moto")
        bucket = moto.new_bucket()
        with proxied(int(moto.endpoint.rpartition(":")[2])) as proxy:
            options = {
                "endpoint": f"http://127.0.0.1:{proxy.port}",
                "access_key": moto.access_key,
                "secret_key": moto.secret_key,
            }
            through = s3_store(moto, bucket=bucket, port=proxy.port)
            yield Site(proxy, through, s3_store(moto, bucket=bucket), (f"s3://{bucket}/some/folder", options))


JOBS = 3


def run_until_stuck(site: Site, job: dict[str, Any], *, through: int, stop: int = signal.SIGKILL) -> None:
    """Start the transfer, let so many requests through, and end it when all its threads wait for the next."""
    passed, stuck = 0, 0

    def hold(request: Request) -> Fault | None:
        nonlocal passed, stuck
        passed += 1
        stuck += passed > through
        return Fault("stall") if passed > through else None

    site.proxy.faults = hold
    process = worker.start({**job, "store": site.job_store, "prefix": "data", "jobs": JOBS})
    deadline = time.monotonic() + 60
    while stuck < JOBS:
        assert process.poll() is None, "it ended before it could be stopped"
        assert time.monotonic() < deadline, "it does not move"
        time.sleep(0.01)
    process.send_signal(stop)
    process.communicate(timeout=60)
    assert process.returncode not in (0, 1)
    site.proxy.faults = lambda request: None
    site.proxy.forget()


def test_an_upload_sends_only_the_blocks_that_are_missing(site: Site, folder: Path, tmp_path: Path) -> None:
    write(folder, {"large": LARGE})
    state = tmp_path / "state"
    run_until_stuck(site, {"verb": "up", "folder": str(folder), "state": str(state)}, through=8)
    assert site.direct.head("data/large") is None
    assert len(list(state.iterdir())) == 1
    result = move(LocalEnd(folder), StoreEnd(site.through, "data"), state=state)
    assert counts(result) == (1, 0, 0, 0)
    assert site.direct.get("data/large") == LARGE
    sent = [request.size for request in site.proxy.requests if request.size > TALK]
    assert 0 < len(sent) <= 11 - 5  # of eleven blocks; of the eight requests some were talk
    assert site.proxy.bytes_up <= sum(sent) + TALK
    assert list(state.iterdir()) == []


def test_blocks_of_another_content_are_not_used(site: Site, folder: Path, tmp_path: Path) -> None:
    write(folder, {"large": LARGE})
    state = tmp_path / "state"
    run_until_stuck(site, {"verb": "up", "folder": str(folder), "state": str(state)}, through=8)
    other = bytes(reversed(LARGE))
    write(folder, {"large": other}, age_s=0)
    os.utime(folder / "large", (LONG_AGO_S, LONG_AGO_S))  # size and time are as before
    move(LocalEnd(folder), StoreEnd(site.through, "data"), state=state)
    assert site.direct.get("data/large") == other


def test_a_download_fetches_only_the_blocks_that_are_missing(site: Site, folder: Path) -> None:
    site.direct.put("data/large", LARGE)
    run_until_stuck(site, {"verb": "down", "folder": str(folder)}, through=8)
    (part,) = os.listdir(folder)
    assert part.startswith(".gofer-part-")
    assert counts(down(site.through, folder)) == (1, 0, 0, 0)
    assert read(folder) == {"large": LARGE}
    assert site.proxy.bytes_down <= len(LARGE) - 5 * BLOCK + TALK


def test_a_download_of_a_replaced_object_starts_again(site: Site, folder: Path) -> None:
    site.direct.put("data/large", LARGE)
    run_until_stuck(site, {"verb": "down", "folder": str(folder)}, through=6)
    other = bytes(reversed(LARGE))
    site.direct.put("data/large", other)
    assert counts(down(site.direct, folder)) == (1, 0, 0, 0)
    assert read(folder) == {"large": other}  # and what was left of the old one is gone


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_many_files_continue_after_an_interruption(
    site: Site, folder: Path, tmp_path: Path, stop: int
) -> None:
    files = many(120, least=1)
    write(folder, files)
    run_until_stuck(site, {"verb": "up", "folder": str(folder)}, through=50, stop=stop)
    there = {info.key for info in site.direct.list("data")}
    assert 40 < len(there) <= 50
    assert all(site.direct.get(key) == files[key.removeprefix("data/")] for key in there)
    assert counts(up(folder, site.through)) == (120 - len(there), len(there), 0, 0)

    back = tmp_path / "back"
    run_until_stuck(site, {"verb": "down", "folder": str(back)}, through=50, stop=stop)
    assert 40 < len(read(back)) <= 50
    assert all(files[name] == data for name, data in read(back).items())
    whole = len(read(back))
    assert counts(down(site.through, back)) == (120 - whole, whole, 0, 0)
    assert read(back) == files


def test_a_leftover_is_removed_unless_someone_is_at_it(folder: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    store.put("data/file", b"1")
    write(folder, {".gofer-part-dead": b"half", "a/.gofer-part-live": b"half"})
    with open(folder / "a/.gofer-part-live", "rb+") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        assert counts(down(store, folder)) == (1, 0, 0, 0)
    assert read(folder) == {"file": b"1", "a/.gofer-part-live": b"half"}
    assert counts(down(store, folder)) == (0, 1, 0, 0)
    assert read(folder) == {"file": b"1"}
