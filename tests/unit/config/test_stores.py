"""Entries of `stores:` for clouds: their keys, and how an address finds its credentials."""

from __future__ import annotations

import pytest
from unit.config.project import ConfigProject

from gofer.config.stores import StoreOptions, full_address
from gofer.errors import ConfigError, UsageError


def test_options_keep_their_references_until_they_are_used(project: ConfigProject) -> None:
    project.configure("""
        stores:
          blob: {url: az://data/me, account: acct, sas: "${secret:blob}", endpoint: "http://h:1/acct"}
        """)
    entry = project.load().store("blob")
    assert entry.url == "az://data@acct/me"
    assert entry.options == StoreOptions("acct", sas="${secret:blob}", endpoint="http://h:1/acct")
    project.load().secrets.set("blob", "dummy-sas-value")
    resolved = entry.options.resolved(project.load().resolve)
    assert resolved.sas == "dummy-sas-value"
    assert repr(resolved) == "StoreOptions(account='acct', sas='***', endpoint='http://h:1/acct')"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{url: az://data, account: a, key: dummy-literal}", "`stores.s.key` is written out"),
        ("{url: az://data, account: a, sas: '?sv=1&sig=dummy-literal'}", "`stores.s.sas` is written out"),
        ("{url: az://data, account: a, key: '${env:K:-dummy-literal}'}", "`stores.s.key` is written out"),
        (
            "{url: s3://data, access_key: a, secret_key: dummy-literal}",
            "`stores.s.secret_key` is written out",
        ),
        ("{url: s3://data, account: a}", "`stores.s.account` means nothing here"),
        ("{url: 'file:///x', key: '${env:K}'}", "`stores.s.key` means nothing here"),
        ("{url: az://data, region: x}", "`stores.s.region` means nothing here"),
        ("{url: 'az://data/${secret:x}'}", "`stores.s.url` must not hold a secret"),
        ("{url: az://data, acount: x}", "unknown key `acount`"),
    ],
)
def test_entries_that_are_refused(project: ConfigProject, entry: str, words: str) -> None:
    project.configure(f"stores: {{s: {entry}}}")
    with pytest.raises(ConfigError) as caught:
        project.load()
    assert words in caught.value.message
    assert "dummy-literal" not in f"{caught.value.message} {caught.value.hint}"


def test_two_files_make_one_entry(project: ConfigProject) -> None:
    project.configure_user('stores: {blob: {sas: "${secret:mine}"}}')
    project.configure("stores: {blob: {url: az://data, account: acct}}")
    assert project.load().store("blob").options == StoreOptions("acct", sas="${secret:mine}")


@pytest.mark.parametrize(
    ("url", "account", "whole"),
    [
        ("az://data", "acct", "az://data@acct"),
        ("az://data/me/too", "acct", "az://data@acct/me/too"),
        ("az://data@other/me", "acct", "az://data@other/me"),
        ("az://data", None, "az://data"),
        ("s3://data/me", "acct", "s3://data/me"),
        ("file:///data", "acct", "file:///data"),
    ],
)
def test_an_address_says_its_account(url: str, account: str | None, whole: str) -> None:
    assert full_address(url, account) == whole


TWO = """
    stores:
      one: {url: az://data/me, account: acctone, key: "${env:K}"}
      two: {url: az://data, account: accttwo, key: "${env:K}"}
      s: {url: s3://data, access_key: a, secret_key: "${env:K}"}
    """


def test_an_address_finds_what_opens_it(project: ConfigProject) -> None:
    project.configure(TWO)
    settings = project.load()
    found = {
        "az://data@acctone/me": ("one", "az://data@acctone/me"),
        "az://data@acctone/else": ("one", "az://data@acctone/else"),
        "az://data@accttwo/deep/er": ("two", "az://data@accttwo/deep/er"),
        "s3://data/x": ("s", "s3://data/x"),
    }
    for url, wanted in found.items():
        entry = settings.store_at(url)
        assert entry is not None
        assert (entry.name, entry.url) == wanted
    assert settings.store_at("az://other") is None
    assert settings.store_at("gs://data") is None
    with pytest.raises(UsageError, match="may be in any of the stores"):
        settings.store_at("az://data/x")
