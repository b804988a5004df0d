"""Packages on Azure ML, ITP and Singularity: nodes without a lasting disk fetch them from the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from packages.wheels import write_wheel
from services.azure import Azure
from services.azure import azure as azure

pytestmark = pytest.mark.xdist_group("azure-aml")
# Removes as one would 31 days from now: the service gives objects their times.
LATER = """
from gofer.ops.prune.prune import PruneRequest, remove, survey
found = survey(session, PruneRequest(target="gpu"), now=time.time() + 31 * 86400)
assert not found.silent, found.silent
say(sorted({one.kind for one in remove(found).removed}))
"""
SHOW = "import alpha, sys; print(alpha.VERSION, sys.prefix)"


def package_endings(home: AzureHome) -> set[str]:
    return {one.rpartition("/")[2].partition(".")[2] for one in home.blobs() if "packages/" in one}


@pytest.fixture
def home(tmp_path: Path, azure: Azure) -> Iterator[AzureHome]:
    made = AzureHome(tmp_path, azure)
    write_wheel(made.folder / "wheels", "alpha")
    (made.folder / "requirements.txt").write_text("alpha\n")
    yield made
    made.close()


def test_packages_are_built_once_and_fetched_from_the_store(home: AzureHome) -> None:
    fields = {}
    for target in ("gpu", "itp", "vc"):
        done = home.gofer("submit", "--wait", "-t", target, "--wheels", "wheels", "python", "-c", SHOW)
        assert "packages: requirements.txt (pip)" in done.err
        assert home.log(done.out.strip()).startswith("1.0 ")
        home.gofer("extract", done.out.strip(), f"out-{target}")
        fields[target] = (home.folder / f"out-{target}/logs/1/node-0/setup.log").read_text()
    assert "the packages are in the store for later runs" in fields["gpu"]
    for target in ("itp", "vc"):
        assert "built by an earlier run, from the store" in fields[target]
        assert "pip install" not in fields[target]
    assert package_endings(home) == {"tar.gz", "used"}
    # `prune` goes by the last use, which is now.
    home.gofer("prune", "-t", "gpu", "--yes")
    assert package_endings(home) == {"tar.gz", "used"}
    assert "packages" in home.python(LATER)
    assert package_endings(home) == set()
