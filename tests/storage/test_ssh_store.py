"""A folder on another machine is a store as any other."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts

from gofer.errors import StoreError, UsageError
from gofer.storage.base import Store
from gofer.storage.open import open_store
from gofer.storage.ssh import SshAddress
from gofer.testing.storage_capabilities import ComparesAndSwapsConformance, StreamsConformance
from gofer.testing.storage_conformance import AppendsConformance

pytestmark = ON_SSH_HOSTS


class TestSshStore(AppendsConformance, StreamsConformance, ComparesAndSwapsConformance):
    @pytest.fixture(autouse=True)
    def _boxes(self, ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", ssh_hosts.env["PATH"])

    def open(self) -> Store:
        return open_store(f"ssh://hostb/~/stores/{uuid4().hex}", create=True)


def test_a_folder_that_is_not_there_is_named(ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ssh_hosts.env["PATH"])
    with pytest.raises(StoreError, match="hostb has no folder /no/such/folder") as caught:
        open_store("ssh://hostb/no/such/folder").get("x")
    assert caught.value.hint == "create it with `ssh hostb mkdir -p /no/such/folder`"


@pytest.mark.parametrize("url", ["ssh://", "ssh://host", "ssh://host/", "ssh:///folder"])
def test_what_is_no_folder_on_a_machine(url: str) -> None:
    with pytest.raises(UsageError, match="is not a folder on a machine"):
        SshAddress.parse(url)


def test_an_address_is_itself_again() -> None:
    for url in ("ssh://me@host/a/b", "ssh://host/~/a"):
        assert SshAddress.parse(url).url() == url
    assert SshAddress.parse("ssh://host/~/a").folder == "~/a"
    assert SshAddress.parse("ssh://host/a/").folder == str(Path("/a"))
