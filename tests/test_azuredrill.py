"""A short drill of submissions to a service that fails, and whether it would see what it looks for.

`make drill-azure` holds the whole one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from azuredrill.canary import Canary, CommandLines
from azuredrill.line import BLOB_KINDS, BlobTrouble
from azuredrill.site import before_blobs, on_azure
from azuredrill.trouble import KINDS, ServiceTrouble, Troubles
from home import until
from services.azure import Azure
from services.azure import azure as azure

from gofer.agent.objects import open_objects
from gofer.agent.objects.base import Objects
from gofer.agent.objects.facts import ObjectsError
from gofer.agent.objects.patience import Policy

pytestmark = pytest.mark.net
WORD = "canary-of-a-test"


@pytest.fixture
def canary() -> Canary:
    return Canary({"the canary": WORD, "the key": "a+key/=="})


@pytest.mark.drill
def test_nothing_is_lost_nothing_runs_twice_and_no_secret_shows(tmp_path: Path) -> None:
    # A silent service is waited for by gofer longer than by a test.
    kinds = {name: kind for name, kind in KINDS.items() if name != "silence"}
    with on_azure(tmp_path, 7, kinds) as site:
        tally = site.run(20, submitters=2)
    assert tally.wrong == [], site.render(tally)
    assert tally.recorded > 0
    assert site.lines.seen > 0
    assert site.blobs.suffered().total() > 0


# -- trouble


def test_only_what_a_request_met_is_counted(azure: Azure) -> None:
    trouble = ServiceTrouble(azure)
    assert azure.arm("GET", "/jobs")[0] == 200
    trouble._spoil("503", KINDS["503"], 1)
    assert trouble.suffered() == Counter()
    asking = threading.Timer(0.2, lambda: azure.arm("GET", "/jobs"))
    asking.start()
    trouble._spoil("503", KINDS["503"], 2)
    asking.join()
    assert trouble.suffered() == Counter({"503": 1})
    azure.fault("status", "^/subscriptions/", status=500)
    assert azure.arm("GET", "/jobs")[0] == 500
    trouble.clear()
    assert azure.arm("GET", "/jobs")[0] == 200


def test_trouble_that_meets_nobody_leaves_nothing(azure: Azure) -> None:
    trouble, rng = ServiceTrouble(azure, {"409": replace(KINDS["409"], wait_s=0.1)}), Random(1)
    for _ in range(6):
        trouble.make(rng)
    trouble.clear()
    # Tokens of before may have been ended; a new one is taken.
    assert azure.ask("GET", azure.workspace, token=azure.token())[0] == 200
    assert "409" not in trouble.suffered()


@pytest.fixture
def line(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[BlobTrouble, Objects]]:
    """Trouble on the way to a container, and who goes it without patience."""
    monkeypatch.setenv("SSL_CERT_FILE", str(azure.ca))
    with before_blobs(azure) as proxy:
        one = azure.account()
        place = {"endpoint": f"https://127.0.0.1:{proxy.port}/{one.name}", "container": azure.container()}
        spec = {"kind": "azure", **place, "account": one.name, "key": one.key}
        opened = open_objects(spec, policy=Policy(tries=1))
        assert isinstance(opened, Objects)
        yield BlobTrouble(proxy), opened


def test_a_spoiled_request_for_a_blob_is_counted_by_its_kind(line: tuple[BlobTrouble, Objects]) -> None:
    trouble, objects = line
    objects.put("a", b"1")
    trouble.spoil("blob: 500", 1)
    assert trouble.suffered() == Counter()
    trouble.kinds = {**BLOB_KINDS, "blob: 500": replace(BLOB_KINDS["blob: 500"], stays=True)}
    trouble.spoil("blob: 500", 1)
    with pytest.raises(ObjectsError, match="500"):
        objects.get("a")
    assert objects.get("a") == b"1"
    assert trouble.suffered() == Counter({"blob: 500": 1})
    trouble.spoil("blob: 500", 1)
    trouble.clear()
    assert objects.get("a") == b"1"


def test_a_list_of_blocks_whose_answer_is_lost_was_carried_out(line: tuple[BlobTrouble, Objects]) -> None:
    trouble, objects = line
    trouble.spoil("blob: answer to a block list lost", 1)
    objects.put("small", b"1")
    data = os.urandom(9 << 20)
    with pytest.raises(ObjectsError):
        objects.put_stream("large", [data])
    assert trouble.suffered() == Counter({"blob: answer to a block list lost": 1})
    assert objects.get("large") == data


def test_a_store_that_was_away_counts_once(line: tuple[BlobTrouble, Objects]) -> None:
    trouble, objects = line
    trouble.kinds = {**BLOB_KINDS, "blob: store away": replace(BLOB_KINDS["blob: store away"], stays=True)}
    trouble.spoil("blob: store away", 1)
    for _ in range(3):
        with pytest.raises(ObjectsError):
            objects.head("a")
    assert trouble.suffered() == Counter({"blob: store away": 1})


def test_troubles_are_drawn_counted_and_cleared_together(
    azure: Azure, line: tuple[BlobTrouble, Objects]
) -> None:
    blobs, objects = line
    blobs.kinds = {"blob: 500": replace(BLOB_KINDS["blob: 500"], stays=True)}
    both = Troubles({ServiceTrouble(azure): 0.0, blobs: 1.0})
    both.make(Random(1))
    with pytest.raises(ObjectsError):
        objects.head("a")
    assert both.suffered() == Counter({"blob: 500": 1})
    both.clear()
    assert objects.head("a") is None


# -- canary


def test_a_secret_in_a_file_is_seen(canary: Canary, tmp_path: Path) -> None:
    (tmp_path / "tokens").mkdir()
    for name in ("tokens/1.json", "secrets.json", "ledger.db", "clean.txt"):
        (tmp_path / name).write_bytes(b"clean" if name == "clean.txt" else b"\0\1" + WORD.encode())
        (tmp_path / name).chmod(0o600)
    assert list(canary.in_files(tmp_path)) == ["ledger.db holds the canary"]
    (tmp_path / "secrets.json").chmod(0o644)
    assert "secrets.json can be read by others" in list(canary.in_files(tmp_path))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("?sv=2025&sig=abcdefghijklmnopqrstuvwxyz%3D", ["the signature of a SAS"]),
        ("Bearer eyJhbGciOiAibm9uZSJ9abc.eyJhdWQiOiAiaHR0cHM6.x", ["a token"]),
        ("key=a%2Bkey%2F%3D%3D", ["the key"]),
        (f'{{"env": "{WORD}"}}', ["the canary"]),
        ("?sv=2025&sig=REDACTED, Bearer ***, a key", []),
    ],
)
def test_a_secret_is_known_in_all_its_forms(canary: Canary, text: str, found: list[str]) -> None:
    assert canary.find(text.encode()) == found


def test_a_secret_in_the_store_or_a_job_is_seen(canary: Canary, azure: Azure) -> None:
    assert list(canary.in_jobs(azure)) == []
    azure.admin("POST", "/jobs", {"name": "told", "command": f"echo {WORD}"})
    assert list(canary.in_jobs(azure)) == ["the job told shows the canary"]
    held = azure.container()
    azure.blob_client().get_container_client(held).upload_blob("a/b", WORD)
    assert list(canary.in_store(azure)) == [f"the blob {held}/a/b holds the canary"]


def test_a_secret_on_a_command_line_is_seen(canary: Canary, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(60)", WORD]
    with CommandLines(canary, tmp_path) as lines:
        process = subprocess.Popen(argv, env={**os.environ, "HOME": str(tmp_path)})
        try:
            (line,) = until(lambda: lines.wrong, "the command line to be looked at")
        finally:
            process.kill()
            process.wait()
    assert line.startswith("a command line shows the canary")
