"""The ssh backend passes the suite that is shipped for every backend."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home

from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance

pytestmark = ON_SSH_HOSTS


class TestSsh(BackendConformance):
    """Two machines that share a folder."""

    column = "ssh"
    smoke = True
    target = "pair"
    gpus_per_node = 4
    timeout_s = 200.0
    home: Home

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = Home(tmp_path)
        monkeypatch.setenv("PATH", ssh_hosts.env["PATH"])
        shared = tmp_path / "shared"
        shared.mkdir()
        self.home.configure(
            "targets: {pair: {kind: ssh, hosts: [hosta, hostb], gpus_per_node: 4, shared: true, "
            "store: both}}\n"
            f"stores: {{both: {{url: 'file://{shared}'}}}}\n"
        )

    def open(self) -> Session:
        return Session(self.home.folder, self.home.environ, emit=lambda _: None)
