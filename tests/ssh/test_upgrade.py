"""An older version of gofer and this one share a home and a machine over SSH, with the queue there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_BOXES
from clusters.fixtures import ssh_boxes as ssh_boxes
from clusters.fixtures import ssh_boxes_site as ssh_boxes_site
from clusters.ssh import Boxes
from home import Home
from upgrade.older import Pair, make_pair, take_source
from upgrade.suite import Upgrade

pytestmark = [*ON_SSH_BOXES, pytest.mark.slow, pytest.mark.wide]
# Another home finds runs in the stores that the settings name.
CONFIGURED = """targets: {box: {kind: ssh, hosts: [boxb], store: far}}
stores: {far: {url: ssh://boxb/~/.gofer/store}}
target: box
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the older version's package is."""
    return take_source(tmp_path_factory.mktemp("older"))


class TestOverSsh(Upgrade):
    @pytest.fixture
    def pair(self, tmp_path: Path, ssh_boxes: Boxes, source: Path) -> Iterator[Pair]:
        home = Home(tmp_path)
        home.environ["PATH"] = f"{ssh_boxes.bin}:{home.environ['PATH']}"
        home.configure(CONFIGURED)
        yield make_pair(home, source)
