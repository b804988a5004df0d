"""Functions as jobs on a machine over SSH whose disk is its own, and whose Python has neither gofer nor
cloudpickle.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from clusters.fixtures import ON_SSH_HOSTS
from clusters.fixtures import ssh_hosts as ssh_hosts
from clusters.fixtures import ssh_hosts_site as ssh_hosts_site
from clusters.ssh import SshHosts
from home import Home

import gofer
from gofer.errors import ResultError

pytestmark = ON_SSH_HOSTS

_RESULT_BYTES = 40 << 20


@pytest.fixture
def own_home(tmp_path: Path, ssh_hosts: SshHosts, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path)
    home.configure("targets: {box: {kind: ssh, hosts: [hosta]}}\ntarget: box\n")
    for name, value in {**home.environ, **ssh_hosts.env}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home.folder)
    return home


def test_results_come_from_the_disk_of_the_machine(own_home: Home) -> None:
    def grow(count: int) -> tuple[str, bytes]:
        import cloudpickle

        return os.path.dirname(cloudpickle.__file__), bytes(count)

    grow.__module__ = "__main__"
    group = gofer.map(grow, [_RESULT_BYTES, 1])
    (place, large), (_, small) = group.results()
    assert (len(large), small) == (_RESULT_BYTES, b"\0")
    assert place.endswith(".function/cloudpickle")
    assert group.command == ["python", "function.zip", "grow"]
    first, second = group.rows()
    with gofer.open(f"{second.id}:gofer-result-0.pkl") as file:
        data = file.read()
    assert first.id.encode() not in data and second.id.encode() in data


def test_a_result_that_somebody_changed_there_is_refused(own_home: Home, ssh_hosts: SshHosts) -> None:
    run = gofer.submit(os.getcwd)
    assert run.result() != os.getcwd()
    change = (
        "import os, sys; path = os.environ['GOFER_RUN_DIR'].rsplit('/', 1)[0] + sys.argv[1]; "
        "data = open(path, 'rb').read(); open(path, 'wb').write(data[:-70] + b'?' + data[-69:])"
    )
    place = f"/{run.id}/outputs/gofer-result-0.pkl"
    gofer.submit(["python3", "-c", change, place], code=False).wait(raise_on_failure=True)
    with pytest.raises(ResultError, match="its signature is not that of the run"):
        run.result()
    assert sys.executable not in run.command
