from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gofer.config.stores import StoreOptions
from gofer.errors import StoreError, UsageError
from gofer.storage.azure import AzureStore
from gofer.storage.file import FileStore
from gofer.storage.memory import MemoryStore
from gofer.storage.open import open_store


@pytest.mark.parametrize("name", ["plain", "with space", "50%20#off?", "naïve", "not-utf8-\udcff"])
def test_the_url_of_a_folder_opens_that_folder(tmp_path: Path, name: str) -> None:
    FileStore(tmp_path / name, create=True).put("k", b"data")
    url = FileStore(tmp_path / name).url
    assert url.isascii()
    again = open_store(url)
    assert again.get("k") == b"data"
    assert again.url == url


def test_a_missing_folder_is_made_only_on_request(tmp_path: Path) -> None:
    url = (tmp_path / "deep" / "store").as_uri()
    with pytest.raises(StoreError, match="is not there") as caught:
        open_store(url)
    assert caught.value.hint is not None
    assert "mkdir -p" in caught.value.hint
    assert not (tmp_path / "deep").exists()
    open_store(url, create=True).put("k", b"")
    assert (tmp_path / "deep" / "store").stat().st_mode & 0o777 == 0o700


def test_one_memory_name_is_one_store() -> None:
    open_store("memory://shared-by-name").put("k", b"1")
    assert open_store("memory://shared-by-name").get("k") == b"1"
    assert open_store("memory://another").head("k") is None
    assert MemoryStore("shared-by-name").head("k") is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/shared/gofer",
        "gofer",
        "ftp://bucket/x",
        "file://relative",
        "file://host/x",
        "file:/x",
        "FILE:///x",
    ],
)
def test_other_urls_are_refused_with_the_kinds(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)
    assert url in caught.value.message
    assert "file:///" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("cloud", "suffix"),
    [
        (None, "core.windows.net"),
        ("AzureUSGovernment", "core.usgovcloudapi.net"),
        ("AzureChinaCloud", "core.chinacloudapi.cn"),
    ],
)
def test_an_account_without_an_endpoint_is_in_the_cloud_of_the_login(
    tmp_path: Path, cloud: str | None, suffix: str
) -> None:
    around = {"HOME": str(tmp_path), **({"AZURE_CLOUD_NAME": cloud} if cloud else {})}
    options = StoreOptions(account="dummyaccount", key="ZHVtbXk=")
    store = open_store("az://box/me", options, environ=around)
    assert isinstance(store, AzureStore)
    assert store.blob_place[1] == f"https://dummyaccount.blob.{suffix}"


def test_a_store_on_google_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gofer.storage.gcs", raising=False)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UsageError, match="obstore") as caught:
        open_store("gs://bucket/prefix")
    assert caught.value.hint == "`pip install 'gofer[gcs]'`"
