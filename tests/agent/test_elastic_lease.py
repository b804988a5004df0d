"""The lease of an elastic run in a folder and in object stores: of several writers exactly one succeeds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from services.azurite import Azurite
from services.fixtures import moto as moto
from services.moto import Moto

from gofer.core.store_spec import StoreSpec
from gofer.node.elastic.lease_store import FolderLease, LeaseStore, ObjectLease
from gofer.node.elastic.records import Generation, LeaderLease, MemberFacts
from gofer.objects import open_objects
from gofer.objects.base import ObjectService

MakeStore = Callable[[], LeaseStore]


def lease(word: str, renewals: int = 1) -> LeaderLease:
    members = (MemberFacts(word, "a host", "127.0.0.1", 4711),)
    return LeaderLease(word, 1, renewals, "127.0.0.1", 4711, Generation(1, members, 9, "it began"))


@pytest.fixture(params=["folder", "azure", "s3"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path, azurite: Azurite, moto: Moto) -> MakeStore:
    if request.param == "folder":
        return lambda: FolderLease(str(tmp_path / "a store/elastic"))
    if request.param == "azure":
        account = azurite.one
        spec: StoreSpec = {
            "kind": "azure",
            "endpoint": account.endpoint,
            "container": account.new_container(),
        }
        spec.update({"account": account.name, "key": account.key})
    else:
        spec = {"kind": "s3", "endpoint": moto.endpoint, "bucket": moto.new_bucket()}
        spec.update({"access_key": moto.access_key, "secret_key": moto.secret_key})
    prefix = f"told/{uuid4().hex}"

    def make() -> LeaseStore:
        objects = open_objects(spec)
        assert isinstance(objects, ObjectService)
        return ObjectLease(objects, prefix)

    return make


def test_a_lease_is_read_as_it_was_written(make_store: MakeStore) -> None:
    one, other = make_store(), make_store()
    assert one.read() is None and one.wish() is None
    assert one.write(lease("a"))
    assert other.read() == lease("a")
    assert one.write(lease("a", 2))  # without another read: the leader knows its own version
    assert other.read() == lease("a", 2)


def test_a_writer_of_an_old_version_fails(make_store: MakeStore) -> None:
    one, other = make_store(), make_store()
    assert one.write(lease("a"))
    assert other.read() == lease("a")
    assert other.write(lease("b", 2))
    assert not one.write(lease("a", 2))
    for number in range(3, 9):  # also when files of old versions are removed by then
        assert other.write(lease("b", number))
    assert not one.write(lease("a", 2))
    assert make_store().read() == lease("b", 8)


# moto compares and writes in two steps, so several of its writers can succeed; S3 itself does this in one.
@pytest.mark.parametrize("make_store", ["folder", "azure"], indirect=True)
def test_of_several_writers_one_succeeds(make_store: MakeStore) -> None:
    stores = [make_store() for _ in range(6)]
    for _ in range(3):
        for store in stores:
            store.read()
        with ThreadPoolExecutor(len(stores)) as pool:
            done = list(pool.map(lambda one: one[1].write(lease(f"w{one[0]}")), enumerate(stores)))
        assert done.count(True) == 1
        assert make_store().read() == lease(f"w{done.index(True)}")
