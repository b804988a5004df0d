"""Clients that are not ours, the official SDKs, read what gofer wrote and write what gofer reads."""

from __future__ import annotations

import base64
import hashlib
import os
import urllib.error
import urllib.request

import pytest
from azure.storage.blob import ContentSettings
from services.azurite import Azurite
from services.moto import Moto
from storage.clouds import azure_by_key, azure_by_sas, s3

from gofer.errors import CredentialError
from gofer.objects import open_objects

KEYS = ["plain.txt", "a folder/näme with 'quotes' & +%41?#.bin", "日本/😀"]


def md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()


@pytest.mark.parametrize("key", KEYS)
def test_the_azure_sdk_reads_what_was_written(azurite: Azurite, key: str) -> None:
    container = azurite.one.new_container()
    store = azure_by_key(azurite.one, container, "some/prefix")
    data = os.urandom(100_000)
    store.put_hashed(key, data, metadata={"mtime": "12.5"})
    store.put_stream(f"{key}-streamed", iter([data] * 100), metadata={"mtime": "13"})
    client = azurite.one.client().get_container_client(container)
    blob = client.get_blob_client(f"some/prefix/{key}")
    assert blob.download_blob(validate_content=True).readall() == data
    found = blob.get_blob_properties()
    assert bytes(found.content_settings.content_md5 or b"") == md5(data)
    assert dict(found.metadata or {}) == {"mtime": "12.5"}
    streamed = client.get_blob_client(f"some/prefix/{key}-streamed")
    assert streamed.download_blob().readall() == data * 100
    found = streamed.get_blob_properties()
    assert bytes(found.content_settings.content_md5 or b"") == md5(data * 100)


@pytest.mark.parametrize("key", KEYS)
def test_what_the_azure_sdk_wrote_is_read(azurite: Azurite, key: str) -> None:
    container = azurite.one.new_container()
    data = os.urandom(100_000)
    client = azurite.one.client().get_container_client(container)
    settings = ContentSettings(content_md5=bytearray(md5(data)))
    client.upload_blob(f"top/{key}", data, metadata={"Owner": "me"}, content_settings=settings)
    store = azure_by_key(azurite.one, container, "top")
    assert store.get(key) == data
    assert [(info.key, info.md5, dict(info.metadata or {})) for info in store.list()] == [
        (key, md5(data), {"owner": "me"})
    ]


def test_boto3_reads_what_was_written_and_the_reverse(moto: Moto) -> None:
    bucket = moto.new_bucket()
    store, client = s3(moto, bucket, "top"), moto.client()
    data = os.urandom(6_000_000)
    for key in KEYS:
        store.put_hashed(key, data, metadata={"mtime": "12.5"})
        store.put_stream(f"{key}-streamed", iter([data] * 3), md5=md5(data * 3))
        found = client.get_object(Bucket=bucket, Key=f"top/{key}")
        assert found["Body"].read() == data
        assert found["Metadata"] == {"mtime": "12.5"}
        assert found["ETag"] == f'"{md5(data).hex()}"'
        streamed = client.get_object(Bucket=bucket, Key=f"top/{key}-streamed")
        assert streamed["Body"].read() == data * 3
        assert streamed["Metadata"] == {"md5chksum": base64.b64encode(md5(data * 3)).decode()}
        client.put_object(Bucket=bucket, Key=f"top/theirs/{key}", Body=data, Metadata={"owner": "me"})
        assert store.get(f"theirs/{key}") == data
        info = store.head(f"theirs/{key}")
        assert info is not None
        assert (info.md5, dict(info.metadata or {})) == (md5(data), {"owner": "me"})


def test_signed_addresses_open_one_object_for_a_while(azurite: Azurite, moto: Moto) -> None:
    for store in (azure_by_key(azurite.one, prefix="a folder"), s3(moto, prefix="a folder")):
        store.put("näme & more", b"data")
        store.put("other", b"data")
        url = store.sign("näme & more", expires_s=300)
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert answer.read() == b"data"
    azure = azure_by_key(azurite.one)
    azure.put("k", b"data")
    azure.put("l", b"data")
    url = azure.sign("k", expires_s=300)
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url.replace("/k?", "/l?"), timeout=60)
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(azure.sign("k", expires_s=-60), timeout=60)
    put = urllib.request.Request(
        azure.sign("new", expires_s=60, method="PUT"),
        data=b"put there",
        method="PUT",
        headers={"x-ms-blob-type": "BlockBlob"},
    )
    urllib.request.urlopen(put, timeout=60).close()
    assert azure.get("new") == b"put there"


def test_a_sas_is_passed_on_and_never_extended(azurite: Azurite) -> None:
    one = azurite.one
    container = one.new_container()
    store = azure_by_sas(one, one.container_sas(container, hours=2), container)
    store.put("k", b"data")
    with urllib.request.urlopen(store.sign("k", expires_s=300), timeout=60) as answer:
        assert answer.read() == b"data"
    ended = azure_by_sas(one, one.container_sas(container, hours=-1), container)
    with pytest.raises(CredentialError, match="too little for a run"):
        ended.sign("k", expires_s=300)


def test_a_node_gets_no_more_than_it_needs(azurite: Azurite, moto: Moto) -> None:
    store = azure_by_key(azurite.one, prefix="top")
    store.put("runs/r1/k", b"data")
    spec = store.node_spec("runs/r1", expires_s=600, write=False)
    assert azurite.one.key not in str(spec)
    objects = open_objects(spec)
    assert objects.get("k") == b"data"
    with pytest.raises(Exception, match="403"):
        objects.put("k", b"other")
    writer = open_objects(store.node_spec("runs/r1", expires_s=600, write=True))
    writer.put("out/x", b"from the node")
    assert store.get("runs/r1/out/x") == b"from the node"
    bucket = s3(moto, prefix="top")
    open_objects(bucket.node_spec("runs", expires_s=600, write=True)).put("k", b"data")
    assert bucket.get("runs/k") == b"data"
