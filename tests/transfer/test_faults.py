"""Servers and networks at their worst: every byte is right and none is missing."""

from __future__ import annotations

import base64
import hashlib
import random
from pathlib import Path

import pytest
from services.azurite import Azurite
from services.moto import Moto
from services.proxy import Fault, Proxy, Request, proxied
from transfer.conftest import azure_store, s3_store
from transfer.transfers import counts, down, move, up
from transfer.trees import many, noise, read, write

from gofer.errors import CredentialError, StoreError
from gofer.storage.base import Store
from gofer.transfer import LocalEnd, StoreEnd, TransferOptions

FAULTS = (
    Fault("reset"),
    Fault("lost"),
    Fault("status", 503),
    Fault("status", 500),
    Fault("status", 429, retry_after="0"),
    Fault("truncate"),
    Fault("drip", seconds=0.2),
)


def spoil(proxy: Proxy, count: int, *, one_in: int) -> None:
    """From now on one request in so many goes wrong, each in another way, until `count` have."""
    chance = random.Random(7)
    proxy.forget()
    left = iter([fault for _ in range(count) for fault in FAULTS][:count])
    proxy.faults = lambda request: next(left, None) if chance.randrange(one_in) == 0 else None


@pytest.mark.timeout(900)
def test_two_thousand_files_and_two_hundred_faults(azurite: Azurite, folder: Path, tmp_path: Path) -> None:
    files = many(2000, most=3000)
    write(folder, files)
    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        spoil(proxy, 100, one_in=10)
        assert counts(up(folder, store)) == (2000, 0, 0, 0)
        assert proxy.injected == 100
        spoil(proxy, 100, one_in=10)
        assert counts(down(store, tmp_path / "back")) == (2000, 0, 0, 0)
        assert proxy.injected == 100
    assert read(tmp_path / "back") == files


def test_large_files_and_faults(azurite: Azurite, moto: Moto, folder: Path, tmp_path: Path) -> None:
    files = {"large": noise(40 << 20), "larger": noise((48 << 20) + 1, seed=1)}
    write(folder, files)
    with proxied(azurite.port) as azure, proxied(int(moto.endpoint.rpartition(":")[2])) as s3:
        stores = {azure_store(azurite.one, port=azure.port): azure, s3_store(moto, port=s3.port): s3}
        for number, (store, proxy) in enumerate(stores.items()):
            back = tmp_path / f"back{number}"
            spoil(proxy, 7, one_in=2)
            assert counts(up(folder, store)) == (2, 0, 0, 0)
            assert proxy.injected == 7
            spoil(proxy, 7, one_in=2)
            assert counts(down(store, back)) == (2, 0, 0, 0)
            assert proxy.injected == 7
            assert read(back) == files


def test_a_file_that_fails_stops_no_other(azurite: Azurite, folder: Path) -> None:
    write(folder, many(30, least=1))
    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        proxy.faults = lambda request: _if(request.method == "PUT" and "f00003" in request.path, 400)
        result = up(folder, store, options=TransferOptions(delete=True))
        assert counts(result) == (29, 0, 0, 1)
        ((path, why),) = result.failed
        assert path == "d3/e0/f00003"
        assert "400" in why
        assert not result.ok


def test_what_fails_for_a_while_is_tried_again_at_the_end(azurite: Azurite, folder: Path) -> None:
    files = many(30, least=1)
    write(folder, files)
    seen: list[str] = []
    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)

        def once(request: Request) -> Fault | None:
            if request.method != "PUT" or "f00003" not in request.path:
                return None
            seen.append(request.path)
            return _if(len(seen) == 1, 400)

        proxy.faults = once
        assert counts(up(folder, store)) == (30, 0, 0, 0)
    assert len(seen) == 2


def test_nothing_is_deleted_after_a_failure(azurite: Azurite, folder: Path) -> None:
    write(folder, {"good": b"1", "bad": b"1"})
    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        store.put("data/extra", b"1")
        proxy.faults = lambda request: _if(request.path.partition("?")[0].endswith("/bad"), 400)
        result = up(folder, store, options=TransferOptions(delete=True))
        assert counts(result) == (1, 0, 0, 1)
        assert result.kept == 1
        assert [info.key for info in store.list()] == ["data/extra", "data/good"]


def test_it_gives_up_when_everything_fails(azurite: Azurite, folder: Path) -> None:
    write(folder, many(400, least=1))
    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        proxy.faults = lambda request: _if(request.method == "PUT", 400)
        with pytest.raises(StoreError, match=r"50 files in a row failed, the last: .*400"):
            up(folder, store)
        assert len(proxy.requests) < 600


def test_a_refused_credential_ends_it_at_once(azurite: Azurite, folder: Path) -> None:
    write(folder, many(400, least=1))
    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        proxy.faults = lambda request: _if(request.method == "PUT", 403)
        with pytest.raises(CredentialError):
            up(folder, store)
        assert len(proxy.requests) < 100


def test_a_damaged_download_is_noticed(azurite: Azurite, folder: Path) -> None:
    """The blob says that its MD5 is another one."""
    store = azure_store(azurite.one)
    for name, data in {"small": b"right", "large": noise(9 << 20)}.items():
        store.put(f"data/{name}", data)
        wrong = hashlib.md5(b"other").digest()
        _set_md5(azurite, store, f"data/{name}", wrong)
    result = down(store, folder)
    assert counts(result) == (0, 0, 0, 2)
    assert {why for _, why in result.failed} == {
        "the received bytes of 'small' are not those that the store reports",
        "the received bytes of 'large' are not those that the store reports",
    }
    assert read(folder) == {}


def test_uploads_are_checked_by_the_service(azurite: Azurite, folder: Path) -> None:
    files = {"small": b"abc", "large": noise(9 << 20)}
    store = azure_store(azurite.one)
    up(write(folder, files), store)
    for name, data in files.items():
        info = store.head(f"data/{name}")
        assert info
        assert info.md5 == hashlib.md5(data).digest()
    with proxied(azurite.port) as proxy:
        through = azure_store(azurite.one, port=proxy.port)
        move(LocalEnd(folder), StoreEnd(through, "again"))
        sent = [request for request in proxy.requests if request.method == "PUT" and request.size]
        small = next(request for request in sent if request.size == 3)
        assert base64.b64decode(small.headers["content-md5"]) == hashlib.md5(b"abc").digest()


def test_many_requests_are_in_flight_while_the_service_is_slow(azurite: Azurite, folder: Path) -> None:
    """No upload is answered before 16 of them are under way."""
    write(folder, many(200, least=1, most=100))
    with proxied(azurite.port) as proxy:
        store = azure_store(azurite.one, port=proxy.port)
        under_way: set[str] = set()

        def hold(request: Request) -> Fault | None:
            if request.method != "PUT":
                return None
            under_way.add(request.path)
            if len(under_way) >= 16:
                proxy.let_go()
            return Fault("hold")

        proxy.faults = hold
        assert counts(up(folder, store)) == (200, 0, 0, 0)
        assert len(under_way) >= 200


def _if(wrong: bool, status: int) -> Fault | None:
    return Fault("status", status) if wrong else None


def _set_md5(azurite: Azurite, store: Store, key: str, md5: bytes) -> None:
    from azure.storage.blob import ContentSettings

    container = store.url.removeprefix("az://").partition("/")[0]
    blob = azurite.one.client().get_blob_client(container, f"some/folder/{key}")
    blob.set_http_headers(ContentSettings(content_md5=bytearray(md5)))
