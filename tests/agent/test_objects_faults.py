"""The client of object stores when the way there is bad: every byte right, nothing done twice that shows."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from services.azurite import Azurite
from services.moto import Moto
from services.proxy import Fault, Proxy, Request, proxied

from gofer.core.store_spec import StoreSpec
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.objects.facts import Exists, ObjectsError, VersionMismatch
from gofer.objects.retry_policy import Policy

PASSING = [
    Fault("reset"),
    Fault("lost"),
    Fault("status", 503),
    Fault("status", 500),
    Fault("status", 429, retry_after="0"),
    Fault("status", 408),
    Fault("truncate"),
    Fault("drip", seconds=0.4),
]
# How long the client waits for a sign of life; where the service is to take longer, that is less.
SILENCE_S = 30.0
SILENCE_IN_TESTS_OF_IT_S = 2.0


@pytest.fixture(params=["azure", "s3"])
def objects(
    request: pytest.FixtureRequest, azurite: Azurite, moto: Moto
) -> Iterator[tuple[ObjectService, Proxy]]:
    """Objects of either service behind a proxy."""
    with proxied(
        azurite.port if request.param == "azure" else int(moto.endpoint.rpartition(":")[2])
    ) as proxy:
        yield open_behind(request.param, proxy, azurite, moto), proxy


def open_behind(
    kind: str, proxy: Proxy, azurite: Azurite, moto: Moto, *, timeout_s: float = SILENCE_S, **options: Any
) -> ObjectService:
    here = f"http://127.0.0.1:{proxy.port}"
    spec: StoreSpec = {"kind": kind, "prefix": "a prefix", "timeout_s": timeout_s}
    if kind == "azure":
        one = azurite.one
        spec.update({"endpoint": f"{here}/{one.name}", "container": one.new_container()})
        spec.update({"account": one.name, "key": one.key})
    else:
        spec.update({"endpoint": here, "bucket": moto.new_bucket()})
        spec.update({"access_key": "dummy-id", "secret_key": "dummy-secret"})
    found = open_objects(spec, **options)
    assert isinstance(found, ObjectService)
    return found


def once(proxy: Proxy, fault: Fault) -> None:
    """The next request meets the fault, the others do not."""
    proxy.forget()
    proxy.faults = lambda request: fault if request.number == 0 else None


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: f"{fault.kind}-{fault.status}")
def test_each_verb_outlives_each_fault(objects: tuple[ObjectService, Proxy], fault: Fault) -> None:
    each_verb_outlives(*objects, fault)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["azure", "s3"])
def test_each_verb_outlives_a_silence(azurite: Azurite, moto: Moto, kind: str) -> None:
    port = azurite.port if kind == "azure" else int(moto.endpoint.rpartition(":")[2])
    with proxied(port) as proxy:
        store = open_behind(kind, proxy, azurite, moto, timeout_s=SILENCE_IN_TESTS_OF_IT_S)
        each_verb_outlives(store, proxy, Fault("stall", seconds=60))


def each_verb_outlives(store: ObjectService, proxy: Proxy, fault: Fault) -> None:
    data = os.urandom(200_000)
    once(proxy, fault)
    store.put("a/k", data)
    once(proxy, fault)
    assert store.get("a/k") == data
    once(proxy, fault)
    assert store.get_range("a/k", 1000, 5000) == data[1000:6000]
    once(proxy, fault)
    info = store.head("a/k")
    assert info is not None
    assert info.size == len(data)
    once(proxy, fault)
    assert [one.key for one in store.list()] == ["a/k"]
    once(proxy, fault)
    assert b"".join(store.get_stream("a/k")) == data
    assert proxy.injected == 1


def test_a_new_object_whose_answer_was_lost_is_ours(objects: tuple[ObjectService, Proxy]) -> None:
    store, proxy = objects
    once(proxy, Fault("lost"))
    store.put("k", b"ours", new=True)
    assert store.get("k") == b"ours"
    once(proxy, Fault("lost"))
    with pytest.raises(Exists):
        store.put("k", b"ours", new=True)


def test_a_commit_whose_answer_was_lost_is_done(objects: tuple[ObjectService, Proxy]) -> None:
    store, proxy = objects
    data = os.urandom(6 << 20)
    upload = store.begin_upload("k")
    blocks = [
        store.put_block("k", upload, 0, data[: 5 << 20]),
        store.put_block("k", upload, 1, data[5 << 20 :]),
    ]
    once(proxy, Fault("lost"))
    store.commit_blocks("k", upload, blocks, md5=hashlib.md5(data).digest())
    assert store.get("k") == data


def test_a_stream_is_resumed_where_it_broke(objects: tuple[ObjectService, Proxy]) -> None:
    store, proxy = objects
    data = os.urandom(5_000_000)
    store.put("k", data)
    proxy.forget()
    proxy.faults = lambda request: Fault("truncate") if request.number < 3 else None
    assert b"".join(store.get_stream("k")) == data
    ranges = [request.headers.get("range", "") for request in proxy.requests]
    assert ranges == ["", "bytes=2500000-", "bytes=3750000-", "bytes=4375000-"]


def test_a_stream_of_an_object_that_is_replaced_meanwhile(objects: tuple[ObjectService, Proxy]) -> None:
    store, proxy = objects
    store.put("k", os.urandom(5_000_000))
    once(proxy, Fault("truncate"))
    stream = store.get_stream("k")
    next(stream)
    store.put("k", b"another")
    with pytest.raises(VersionMismatch):
        list(stream)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_waited_for(objects: tuple[ObjectService, Proxy], form: str) -> None:
    store, proxy = objects
    store.put("k", b"data")
    for status in (429, 503):
        ends = int(time.time()) + 3
        at = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(ends))
        once(proxy, Fault("status", status, retry_after="2" if form == "seconds" else at))
        began = time.monotonic()
        assert store.get("k") == b"data"
        assert time.monotonic() - began > 1.9 if form == "seconds" else time.time() > ends - 0.1
        assert len(proxy.requests) == 2


def test_patience_ends(azurite: Azurite, moto: Moto) -> None:
    with proxied(azurite.port) as proxy:
        store = open_behind("azure", proxy, azurite, moto, policy=Policy(tries=4, first_s=0.01))
        proxy.faults = lambda request: Fault("status", 503)
        with pytest.raises(ObjectsError, match=r"503.*4 times"):
            store.get("k")
        assert len(proxy.requests) == 4
        proxy.forget()
        proxy.faults = lambda request: Fault("status", 429, retry_after="100000")
        with pytest.raises(ObjectsError, match="asks to wait for 100000 s"):
            store.get("k")
        assert len(proxy.requests) == 1


def test_a_service_that_never_answered_is_retried_as_often(azurite: Azurite, moto: Moto) -> None:
    """As on a node, which got itself from that very store a moment ago."""
    with proxied(azurite.port) as proxy:
        store = open_behind("azure", proxy, azurite, moto, policy=Policy(first_s=0.01))
        proxy.faults = lambda request: Fault("reset") if request.number < 6 else None
        assert [*store.list("")] == []


def test_two_writers_of_a_new_object_that_meet_in_s3(azurite: Azurite, moto: Moto) -> None:
    with proxied(int(moto.endpoint.rpartition(":")[2])) as proxy:
        store = open_behind("s3", proxy, azurite, moto)
        conflict = b"<Error><Code>ConditionalRequestConflict</Code></Error>"
        once(proxy, Fault("status", 409, body=conflict))
        store.put("k", b"data", new=True)
        assert store.get("k") == b"data"


def test_what_will_not_pass_is_not_tried_again(objects: tuple[ObjectService, Proxy]) -> None:
    store, proxy = objects
    for status in (400, 403, 404, 409, 411):
        once(proxy, Fault("status", status, body=b"<Error><Code>Odd</Code></Error>"))
        with pytest.raises(ObjectsError):
            store.get("k")
        assert len(proxy.requests) == 1


def test_connections_that_died_while_idle_are_replaced(azurite: Azurite, moto: Moto) -> None:
    with proxied(azurite.port) as first:
        store = open_behind("azure", first, azurite, moto)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda i: store.put(f"k{i}", b"data"), range(64)))
        port = first.port
    with proxied(azurite.port, port=port):
        for i in range(64):
            assert store.get(f"k{i}") == b"data"


def test_many_faults_under_many_threads(objects: tuple[ObjectService, Proxy]) -> None:
    store, proxy = objects
    dice = random.Random(7)
    kinds = [
        Fault("reset"),
        Fault("lost"),
        Fault("status", 503),
        Fault("truncate"),
        Fault("drip", seconds=0.05),
    ]
    wanted = {f"folder {i % 7}/file {i}": dice.randbytes(dice.randrange(1, 60_000)) for i in range(300)}
    lock = threading.Lock()

    def faults(request: Request) -> Fault | None:
        with lock:
            return dice.choice(kinds) if dice.random() < 0.15 else None

    proxy.faults = faults
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: store.put(key, wanted[key]), wanted))
        found = dict(zip(wanted, pool.map(store.get, wanted), strict=True))
    assert found == wanted
    assert proxy.injected > 50
    proxy.faults = lambda request: None
    assert [info.key for info in store.list()] == sorted(wanted)


def test_a_child_has_connections_of_its_own(objects: tuple[ObjectService, Proxy]) -> None:
    store, _ = objects
    for i in range(20):
        store.put(f"k{i}", b"%d" % i)
    child = os.fork()
    if child == 0:
        wrong = [i for i in range(20) if store.get(f"k{i}") != b"%d" % i]
        os._exit(1 if wrong else 0)
    for i in range(20):
        assert store.get(f"k{i}") == b"%d" % i
    assert os.waitpid(child, 0)[1] == 0
