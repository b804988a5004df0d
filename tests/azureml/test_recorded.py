"""Files of an earlier gofer in an object store: of runs on this machine and of runs on Azure ML."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from recorded import tree
from recorded.home import RecordedHome, view_ids
from services.azurite import Account, Azurite
from services.fixtures import azurite as azurite

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("recorded")]
BLOB_VIEWS, AZURE_VIEWS = view_ids("blob"), view_ids("azure")


def restored(root: Path, account: Account, name: str) -> RecordedHome:
    """The recorded home, and its container on this server."""
    container = account.new_container()
    endpoint = account.endpoint.removesuffix(f"/{account.name}")
    words = {
        "@ENDPOINT@": endpoint,
        "@ACCOUNT@": account.name,
        "@CONTAINER@": container,
        "@SERVICE@": "nowhere",
    }
    home = RecordedHome(root, name, words)
    home.environ["DUMMY_KEY"] = account.key
    client = account.client().get_container_client(container)
    for key, entry in home.document["blobs"].items():
        client.upload_blob(tree.shown(key, home.words), tree.content(entry, home.words))
    return home


@pytest.fixture(scope="module")
def blob(tmp_path_factory: pytest.TempPathFactory, azurite: Azurite) -> RecordedHome:
    return restored(tmp_path_factory.mktemp("blob"), azurite.one, "blob")


@pytest.fixture(scope="module")
def on_azure(tmp_path_factory: pytest.TempPathFactory, azurite: Azurite) -> RecordedHome:
    return restored(tmp_path_factory.mktemp("azure"), azurite.one, "azure")


@pytest.mark.parametrize("number", range(len(BLOB_VIEWS)), ids=BLOB_VIEWS)
def test_runs_of_this_machine_read_as_then(blob: RecordedHome, number: int) -> None:
    blob.check(number)


@pytest.mark.parametrize("number", range(len(AZURE_VIEWS)), ids=AZURE_VIEWS)
def test_runs_on_azure_read_as_then(on_azure: RecordedHome, number: int) -> None:
    on_azure.check(number)


def test_a_log_in_parts_is_read_from_elsewhere(blob: RecordedHome) -> None:
    """A run that was writing then: another home, with an empty ledger, finds the run in the store."""
    living = blob.document["living"]
    parts = [key for key in blob.document["blobs"] if ".parts/" in key and "rank-0.log" in key]
    assert len(parts) > 1
    second = {"GOFER_HOME": str(blob.root / "second")}
    (blob.root / "second").mkdir()
    shutil.copy(blob.path / "config.yaml", blob.root / "second")
    blob.gofer("list", "runs", "--everywhere", env=second)
    log = blob.gofer("logs", living, env=second).out
    assert log == "up\n" + "".join(f"{number}\n" for number in range(1, 41)) + "more\n"
