"""A short drill of submissions to a service that fails, and whether it would see what it looks for.

`make drill-azure` holds the whole one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from azuredrill.azure_drill import azure_drill, before_blobs
from azuredrill.blob_faults import BLOB_KINDS, BlobFaults
from azuredrill.canary import Canary, CommandLines
from azuredrill.service_faults import KINDS, PUT_LOST, CombinedFaults, ServiceFaults
from home import Home, until
from linedrill.line_drill import DrillSetup, LineDrill
from services.azure import Azure
from services.azure import azure as azure
from services.proxy import Fault

from drill.clock import Clock, find_compiler
from gofer.core.store_spec import StoreSpec
from gofer.objects import open_objects
from gofer.objects.base import ObjectService
from gofer.objects.facts import ObjectsError
from gofer.objects.retry_policy import Policy

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-drill"), pytest.mark.timeout(900)]
WORD = "canary-of-a-test"


@pytest.fixture
def canary() -> Canary:
    return Canary({"the canary": WORD, "the key": "a+key/=="})


# One command may take four minutes and what has been submitted ten to end: the drill is to say so itself.
@pytest.mark.timeout(1200)
@pytest.mark.drill
def test_nothing_is_lost_nothing_runs_twice_and_no_secret_shows(tmp_path: Path) -> None:
    # A silent service is waited for by gofer longer than by a test.
    kinds = {name: kind for name, kind in KINDS.items() if name != "silence"}
    with azure_drill(tmp_path, 7, kinds) as site:
        tally = site.run(16, submitters=2)
    assert tally.wrong == [], site.render(tally)
    assert tally.recorded > 0
    assert tally.faults.total() >= 16
    assert site.lines.seen > 0
    assert site.blobs.met_by_clients().total() > 0


class Idle(Home):
    """A gofer that does nothing."""

    def argv(self, *words: str) -> list[str]:
        return ["true"]


class Broken:
    """Trouble that fails itself, or whose submitters have failed."""

    def make(self, rng: Random) -> None:
        raise RuntimeError("the drill itself broke")

    def met_by_clients(self) -> Counter[str]:
        return Counter()

    def clear(self) -> None: ...


def test_nobody_submits_when_the_drill_itself_broke(tmp_path: Path) -> None:
    before = threading.active_count()
    line_drill = LineDrill(DrillSetup(Idle(tmp_path), Broken(), lambda rng: [], questions=[("q",)]), seed=1)
    with pytest.raises(RuntimeError, match="itself broke"):
        line_drill.run(5)
    assert threading.active_count() == before


def test_the_summary_has_failures_delays_and_blobs_separately(tmp_path: Path) -> None:
    with azure_drill(tmp_path, 1) as site:
        site.service._met.update({PUT_LOST: 2, "503": 1, "slow": 3})
        site.blobs._met.update({"blob: 500": 4, "blob: slow": 5, "blob: slow answer": 6})
        tally = replace(site.line_drill.tally, faults=site.line_drill.setup.faults.met_by_clients())
        lines = site.render(tally).splitlines()
    assert lines[0] == f"faults 3 (503 1, {PUT_LOST} 2), gofer killed 0"
    assert [line for line in lines if line.startswith("jobs' PUTs")] == [
        "jobs' PUTs that lost their answer, by rules for PUTs alone: 2 "
        "(answer to a job's PUT cut short 0, answer to a job's PUT lost 2)"
    ]
    assert "also, not counted above: late answers of the service 3 (slow 3)" in lines
    assert (
        "requests for blobs 0, failed 4 (blob: 500 4), late 11 (blob: slow 5, blob: slow answer 6), of both "
        "with a SAS, as nodes have it, 0"
    ) in lines


# -- trouble


def test_only_faults_that_a_request_met_are_counted(azure: Azure) -> None:
    faults = ServiceFaults(azure)
    assert azure.arm("GET", "/jobs")[0] == 200
    faults._inject("503", KINDS["503"], 1)
    assert faults.met_by_clients() == Counter()
    asking = threading.Thread(target=ask_when_spoiled, args=[azure])
    asking.start()
    faults._inject("503", replace(KINDS["503"], wait_s=20.0), 2)
    asking.join()
    assert faults.met_by_clients() == Counter({"503": 1})
    azure.fault("status", "^/subscriptions/", status=500)
    assert azure.arm("GET", "/jobs")[0] == 500
    faults.clear()
    assert azure.arm("GET", "/jobs")[0] == 200


def ask_when_spoiled(azure: Azure) -> None:
    """One request, once a rule is in force."""
    until(lambda: azure.admin("GET", "/counters")["waiting"], "a rule")
    azure.arm("GET", "/jobs")


def test_a_mere_delay_is_no_failure(azure: Azure) -> None:
    slow = replace(KINDS["slow"], rule={**KINDS["slow"].rule, "seconds": 0.1}, wait_s=120.0)
    faults = ServiceFaults(azure, {"slow": slow})
    asking = threading.Thread(target=ask_when_spoiled, args=[azure])
    asking.start()
    faults._inject("slow", slow, 1)
    asking.join()
    assert faults.met_by_clients() == Counter()
    assert faults.delays() == Counter({"slow": 1})


class Watched(Clock):
    """A clock that somebody looks at, and asks the service, whenever it is set."""

    def __init__(self, folder: Path, compiler: str, azure: Azure) -> None:
        self._azure = azure
        self.ahead_s: list[float] = []
        super().__init__(folder, compiler)

    def set(self, offset: str) -> None:
        super().set(offset)
        argv, env = ["date", "+%s"], {**os.environ, **self.variables()}
        shown = subprocess.run(argv, env=env, capture_output=True, check=True, timeout=60).stdout
        self.ahead_s.append(int(shown) - time.time())
        self._azure.arm("GET", "/jobs")


@pytest.mark.parametrize(
    ("name", "least_s", "most_s"),
    [("person's clock ahead", 60, 1200), ("person's clock behind", -1200, -60)],
)
def test_a_persons_clock_is_wrong_for_a_while_and_then_right(
    azure: Azure, name: str, least_s: int, most_s: int, tmp_path: Path
) -> None:
    compiler = find_compiler()
    assert compiler is not None, "the clock is made by a C compiler: `apt-get install gcc`"
    clock = Watched(tmp_path, compiler, azure)
    faults = ServiceFaults(azure, clock=clock)
    faults._set_clocks(name, Random(1))
    first, wrong, last = clock.ahead_s
    # What `date` prints has no fraction, and it takes a moment to be started.
    assert least_s - 30 <= wrong <= most_s
    assert max(abs(first), abs(last)) < 30
    assert faults.met_by_clients() == Counter({name: 1})


def test_a_fault_that_no_request_meets_leaves_no_rule(azure: Azure) -> None:
    faults, rng = ServiceFaults(azure, {"409": replace(KINDS["409"], wait_s=0.1)}), Random(1)
    for _ in range(6):
        faults.make(rng)
    faults.clear()
    # Tokens of before may have been ended; a new one is taken.
    assert azure.ask("GET", azure.workspace, token=azure.token())[0] == 200
    assert "409" not in faults.met_by_clients()


@pytest.fixture
def line(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[BlobFaults, ObjectService]]:
    """Trouble on the way to a container, and who goes it without patience."""
    monkeypatch.setenv("SSL_CERT_FILE", str(azure.ca))
    with before_blobs(azure) as proxy:
        one = azure.account()
        spec: StoreSpec = {
            "kind": "azure",
            "container": azure.container(),
            "account": one.name,
            "key": one.key,
        }
        spec["endpoint"] = f"https://127.0.0.1:{proxy.port}/{one.name}"
        opened = open_objects(spec, policy=Policy(tries=1))
        assert isinstance(opened, ObjectService)
        yield BlobFaults(proxy), opened


def test_a_spoiled_request_for_a_blob_is_counted_by_its_kind(line: tuple[BlobFaults, ObjectService]) -> None:
    faults, objects = line
    objects.put("a", b"1")
    faults.inject("blob: 500", 1)
    assert faults.met_by_clients() == Counter()
    faults.kinds = {**BLOB_KINDS, "blob: 500": replace(BLOB_KINDS["blob: 500"], stays=True)}
    faults.inject("blob: 500", 1)
    with pytest.raises(ObjectsError, match="500"):
        objects.get("a")
    assert objects.get("a") == b"1"
    assert faults.met_by_clients() == Counter({"blob: 500": 1})
    faults.inject("blob: 500", 1)
    faults.clear()
    assert objects.get("a") == b"1"


def test_a_list_of_blocks_whose_answer_is_lost_was_carried_out(
    line: tuple[BlobFaults, ObjectService],
) -> None:
    faults, objects = line
    faults.inject("blob: answer to a block list lost", 1)
    objects.put("small", b"1")
    data = os.urandom(9 << 20)
    with pytest.raises(ObjectsError):
        objects.put_stream("large", [data])
    assert faults.met_by_clients() == Counter({"blob: answer to a block list lost": 1})
    assert objects.get("large") == data


def test_a_store_that_was_away_counts_once(line: tuple[BlobFaults, ObjectService]) -> None:
    faults, objects = line
    faults.kinds = {**BLOB_KINDS, "blob: store away": replace(BLOB_KINDS["blob: store away"], stays=True)}
    faults.inject("blob: store away", 1)
    for _ in range(3):
        with pytest.raises(ObjectsError):
            objects.head("a")
    assert faults.met_by_clients() == Counter({"blob: store away": 1})


def test_a_late_blob_is_no_failure(line: tuple[BlobFaults, ObjectService]) -> None:
    faults, objects = line
    late = replace(BLOB_KINDS["blob: slow"], fault=Fault("slow", seconds=0.1), stays=True)
    faults.kinds = {**BLOB_KINDS, "blob: slow": late}
    faults.inject("blob: slow", 1)
    assert objects.head("a") is None
    assert faults.met_by_clients() == Counter()
    assert faults.delays() == Counter({"blob: slow": 1})


def test_both_fault_sources_work_together_and_count_separately(
    azure: Azure, line: tuple[BlobFaults, ObjectService]
) -> None:
    blobs, objects = line
    blobs.kinds = {"blob: 500": replace(BLOB_KINDS["blob: 500"], stays=True)}
    service = ServiceFaults(azure, {"503": replace(KINDS["503"], weight=1e9, wait_s=0.1)})
    both = CombinedFaults(service, blobs, share=1.0)
    both.make(Random(1))
    with pytest.raises(ObjectsError):
        objects.head("a")
    assert both.met_by_clients() == Counter()
    assert blobs.met_by_clients() == Counter({"blob: 500": 1})
    both.make(Random(1))
    both.clear()
    assert objects.head("a") is None


def test_an_error_of_the_second_fault_source_is_raised(azure: Azure) -> None:
    service = ServiceFaults(azure, {"503": replace(KINDS["503"], weight=1e9, wait_s=0.1)})
    with pytest.raises(RuntimeError, match="itself broke"):
        CombinedFaults(service, Broken(), share=1.0).make(Random(1))


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
    argv = [sys.executable, "-c", "import time; time.sleep(300)", WORD]
    with CommandLines(canary, tmp_path) as lines:
        process = subprocess.Popen(argv, env={**os.environ, "HOME": str(tmp_path)})
        try:
            (line,) = until(lambda: lines.wrong, "the command line to be looked at")
        finally:
            process.kill()
            process.wait()
    assert line.startswith("a command line shows the canary")
