"""The clusters as fixtures, one of each for a module: `from clusters.fixtures import slurm as slurm`.

A test module that uses a cluster sets `pytestmark` to its list: then a single worker gets all tests of a
kind of cluster, and there is one of it at a time: to pytest, what several modules import is a fixture of each
of them, and for a session they would all stay up to its end. Each test finds the cluster healed, without the
jobs of the test before.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusters import slurm as _slurm
from clusters import ssh as _ssh
from clusters.k8s import cluster as _k8s
from clusters.k8s import faults as _k8s_faults

ON_SLURM = [pytest.mark.root, pytest.mark.xdist_group("slurm")]
ON_SLURM_ACCOUNTING = [pytest.mark.root, pytest.mark.xdist_group("slurm-accounting")]
ON_SLURM_NAMESPACES = [pytest.mark.root, pytest.mark.xdist_group("slurm-namespaces")]
ON_K8S = [pytest.mark.root, pytest.mark.xdist_group("k8s")]
ON_SSH_HOSTS = [pytest.mark.root, pytest.mark.xdist_group("ssh-boxes")]


@pytest.fixture(scope="module")
def slurm_site() -> Iterator[_slurm.Slurm]:
    """A cluster that forgets a job soon after its end, as sites without accounting do."""
    with running() as site:
        yield site


@pytest.fixture(scope="module")
def slurm_accounting_site() -> Iterator[_slurm.Slurm]:
    with running(accounting=True) as site:
        yield site


@pytest.fixture(scope="module")
def slurm_namespaces_site() -> Iterator[_slurm.Slurm]:
    with running(namespaces=True) as site:
        yield site


@pytest.fixture(scope="module")
def ssh_hosts_site() -> Iterator[_ssh.SshHosts]:
    with boxed(None) as machines:
        yield machines


@pytest.fixture(scope="module")
def k8s_site() -> Iterator[_k8s.Kubernetes]:
    with running_k8s() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def slurm_login_site(slurm_site: _slurm.Slurm) -> Iterator[_ssh.SshHosts]:
    with boxed(slurm_site) as machines:
        yield machines


@pytest.fixture
def slurm(slurm_site: _slurm.Slurm) -> Iterator[_slurm.Slurm]:
    """The cluster without accounting."""
    yield slurm_site
    slurm_site.reset()


@pytest.fixture
def slurm_accounting(slurm_accounting_site: _slurm.Slurm) -> Iterator[_slurm.Slurm]:
    """The cluster with accounting; account `research` may use 8 GPUs, and there is a QOS `urgent`."""
    yield slurm_accounting_site
    slurm_accounting_site.reset()


@pytest.fixture
def slurm_namespaces(slurm_namespaces_site: _slurm.Slurm) -> Iterator[_slurm.Slurm]:
    """The cluster whose nodes can be cut off. A node that is killed is missed within seconds."""
    yield slurm_namespaces_site
    slurm_namespaces_site.reset()


@pytest.fixture
def k8s(k8s_site: _k8s.Kubernetes) -> Iterator[_k8s.Kubernetes]:
    """The Kubernetes cluster."""
    yield k8s_site
    _k8s_faults.reset(k8s_site)


@pytest.fixture
def ssh_hosts(ssh_hosts_site: _ssh.SshHosts) -> Iterator[_ssh.SshHosts]:
    """`hosta`, and `hostb` behind it."""
    yield ssh_hosts_site
    ssh_hosts_site.heal()


@pytest.fixture
def slurm_login(slurm_login_site: _ssh.SshHosts, slurm: _slurm.Slurm) -> Iterator[_ssh.SshHosts]:
    """The boxes, and `login` and `login-jump` in front of the cluster of `slurm`. Mark with ON_SLURM."""
    yield slurm_login_site
    slurm_login_site.heal()


@contextmanager
def running(*, accounting: bool = False, namespaces: bool = False) -> Iterator[_slurm.Slurm]:
    """A cluster that ends with the block, or with this process."""
    with _folder("slurm") as folder:
        yield _slurm.up(folder, accounting=accounting, namespaces=namespaces, tied=True)


@contextmanager
def running_k8s() -> Iterator[_k8s.Kubernetes]:
    """A cluster that ends with the block, or with this process."""
    with _folder("k8s") as folder:
        yield _k8s.up(folder, tied=True)


@contextmanager
def boxed(slurm: _slurm.Slurm | None) -> Iterator[_ssh.SshHosts]:
    """Machines that end with the block, or with this process."""
    with _folder("ssh") as folder:
        yield _ssh.up(folder, slurm=slurm, tied=True)


@contextmanager
def _folder(kind: str) -> Iterator[Path]:
    """A short path: sockets are in it."""
    folder = Path(tempfile.mkdtemp(prefix=f"gofer-{kind}-"))
    try:
        yield folder
    finally:
        {"slurm": _slurm.down, "ssh": _ssh.down, "k8s": _k8s.down}[kind](folder)
        shutil.rmtree(folder, ignore_errors=True)
