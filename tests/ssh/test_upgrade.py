"""An older version of gofer and this one share a home and a machine over SSH, with the queue there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home
from upgrade.older_version import Pair, make_pair, take_source
from upgrade.suite import Upgrade

pytestmark = [*ON_SSH_HOSTS, pytest.mark.slow, pytest.mark.wide]
# Another home finds runs in the stores that the settings name.
CONFIGURED = """targets: {box: {kind: ssh, hosts: [hostb], store: far}}
stores: {far: {url: ssh://hostb/~/.gofer/store}}
target: box
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the older version's package is."""
    return take_source(tmp_path_factory.mktemp("older"))


class TestOverSsh(Upgrade):
    @pytest.fixture
    def pair(self, tmp_path: Path, ssh_hosts: SshHosts, source: Path) -> Iterator[Pair]:
        home = Home(tmp_path)
        home.environ["PATH"] = f"{ssh_hosts.bin}:{home.environ['PATH']}"
        home.configure(CONFIGURED)
        yield make_pair(home, source)
