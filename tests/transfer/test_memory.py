"""However much there is to move, memory stays within its bound."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from services.azurite import Azurite
from transfer import worker
from transfer.trees import noise, write

BOUND_MIB = 150


def job(azurite: Azurite) -> dict[str, object]:
    one = azurite.one
    options = {"account": one.name, "key": one.key, "endpoint": one.endpoint}
    return {"store": (f"az://{one.new_container()}", options), "prefix": "data"}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["azure", "file"])
def test_large_files(request: pytest.FixtureRequest, kind: str, folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    with open(folder / "large", "wb") as file:
        file.truncate(400 << 20)
    on_disk: dict[str, object] = {"store": ((tmp_path / "store").as_uri(), {}), "prefix": "data"}
    common = job(request.getfixturevalue("azurite")) if kind == "azure" else on_disk
    sent = worker.finish(worker.start({**common, "verb": "up", "folder": str(folder)}))
    got = worker.finish(worker.start({**common, "verb": "down", "folder": str(tmp_path / "back")}))
    assert (sent["files"], got["files"]) == (1, 1)
    assert max(sent["peak_mib"], got["peak_mib"]) <= BOUND_MIB
    subprocess.run(["cmp", folder / "large", tmp_path / "back/large"], check=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_files_just_below_large(azurite: Azurite, folder: Path, tmp_path: Path) -> None:
    data = noise((8 << 20) - 1)
    write(folder, {str(n): data for n in range(60)})
    common = {**job(azurite), "jobs": 64}
    sent = worker.finish(worker.start({**common, "verb": "up", "folder": str(folder)}))
    got = worker.finish(worker.start({**common, "verb": "down", "folder": str(tmp_path / "back")}))
    assert (sent["files"], got["files"]) == (60, 60)
    assert max(sent["peak_mib"], got["peak_mib"]) <= BOUND_MIB


A_MILLION = """
import json
from gofer.storage.base import ObjectInfo
from gofer.storage.memory import MemoryStore
from gofer.transfer import StoreEnd, TransferOptions, plan
from transfer.worker import peak_mib

class Vast(MemoryStore):
    def __init__(self, step):
        super().__init__()
        self._step = step

    def list(self, prefix=""):
        for number in range(0, 1_000_000, self._step):
            yield ObjectInfo(f"data/folder/a-name-of-usual-length-{number:07d}.jpg", 1000, 5.0)

made = plan(StoreEnd(Vast(1), "data"), StoreEnd(Vast(2), "data"), TransferOptions(delete=True))
peak = peak_mib()
items = sum(1 for item in made.items())
print(json.dumps([made.files, items, made.skipped, made.deletes, peak]))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_objects() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", A_MILLION], check=True, capture_output=True, env=env)
    *numbers, peak_mib = json.loads(done.stdout)
    assert numbers == [500_000, 500_000, 500_000, 0]
    assert peak_mib <= BOUND_MIB
