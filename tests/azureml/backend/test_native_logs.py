"""The service's own logs: read in pieces, no more of them than is shown, and never again once all is here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from azure.storage.blob import BlobClient
from azureml.backend.azure_home import AzureHome
from services.azure import Azure, azure_sim
from services.relay import Relay, relayed

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-native-logs")]

LOG = "user_logs/std_log.txt"
LINE = b"a line of a log that is read in pieces %08d\n"
LONG = b"".join(LINE % number for number in range(150_000))
MIB = 1 << 20


class ProxiedHome(NamedTuple):
    """A person whose every byte from the store's server is counted."""

    home: AzureHome
    azure: Azure
    relay: Relay

    def leave(self, name: str, data: bytes, status: str = "Completed") -> None:
        """A job of another tool with this log."""
        self.azure.admin("POST", "/jobs", {"name": name, "status": status, "logs": {LOG: ""}})
        self.grow(name, data)

    def grow(self, name: str, data: bytes) -> None:
        blob = self.log_blob(name)
        for at in range(0, len(data), 2 * MIB):
            blob.append_block(data[at : at + 2 * MIB])

    def log_blob(self, name: str) -> BlobClient:
        _, store = self.azure.arm("GET", "/datastores/workspaceartifactstore")
        place = store["properties"]
        client = self.azure.blob_client(place["accountName"])
        return client.get_blob_client(place["containerName"], f"ExperimentRun/dcid.{name}/{LOG}")

    def forget(self) -> None:
        self.azure.admin("DELETE", "/counters")
        self.relay.bytes_down = 0

    def request_counts(self) -> dict[str, int]:
        found: dict[str, int] = self.azure.admin("GET", "/counters")["requests"]
        return {name: count for name, count in found.items() if "/_sim/" not in name}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Azure, Relay]]:
    with (
        azure_sim(tmp_path_factory.mktemp("azure")) as running,
        relayed(int(running.blobs.rsplit(":", 1)[1])) as relay,
    ):
        running.close()
        running.blobs = f"https://127.0.0.1:{relay.port}"
        running.start()
        yield running, relay


@pytest.fixture
def proxied_home(tmp_path: Path, counted: tuple[Azure, Relay]) -> Iterator[ProxiedHome]:
    home = AzureHome(tmp_path, counted[0])
    yield ProxiedHome(home, *counted)
    home.close()


def test_pieces(proxied_home: ProxiedHome) -> None:
    proxied_home.leave("pieces", LONG)
    found = proxied_home.home.python(f"""
b = session.backend("aml")
say([b.native_size("pieces", "{LOG}"), b.native_size("pieces", "none"), b.native_size("none", "{LOG}"),
     *(len(b.read_native("pieces", "{LOG}", at)) for at in (0, 4 << 20, {len(LONG)} - 5, {len(LONG)}))])
""")
    assert found == [len(LONG), None, None, 4 * MIB, len(LONG) - 4 * MIB, 5, 0]
    assert 4 * MIB < len(LONG) < 8 * MIB


def test_the_whole_in_pieces_is_the_whole(proxied_home: ProxiedHome) -> None:
    proxied_home.leave("whole", LONG)
    assert proxied_home.home.gofer("logs", "whole").out.encode() == LONG
    assert (
        proxied_home.home.gofer("logs", "-f", "whole", "--tail", "2").out.encode()
        == LONG[-2 * len(LINE % 0) :]
    )
    proxied_home.home.gofer("q", "whole")
    assert (proxied_home.home.folder / "assets/whole" / LOG).read_bytes() == LONG


def test_the_end_of_a_long_log_is_all_that_is_read(proxied_home: ProxiedHome) -> None:
    proxied_home.leave("end", LONG)
    proxied_home.home.gofer("q", "--no-logs", "end")
    proxied_home.forget()
    assert proxied_home.home.gofer("logs", "end", "--tail", "3").out.encode() == LONG[-3 * len(LINE % 0) :]
    assert 0 < proxied_home.relay.bytes_down < 2 * MIB


def test_nobody_sleeps_between_full_pieces(proxied_home: ProxiedHome) -> None:
    proxied_home.leave("followed", LONG, "Running")
    proxied_home.home.gofer("q", "--no-logs", "followed")
    found = proxied_home.home.python("""
import hashlib
import time
from gofer.ops.logs.log_reader import LogReader
slept, got = [], hashlib.sha256()
row = session.ledger.get("followed")
time.sleep = slept.append
for piece in LogReader(session, row).follow(lines=None):
    got.update(piece)
    if len(piece) < 4 << 20:
        break
say([got.hexdigest(), slept])
""")
    assert found == [hashlib.sha256(LONG).hexdigest(), []]


def test_all_of_an_ended_job_is_brought_once(proxied_home: ProxiedHome) -> None:
    proxied_home.leave("brought", b"first\n", "Running")
    assert "first" in proxied_home.home.gofer("q", "brought").out
    proxied_home.grow("brought", b"second\n")
    proxied_home.azure.admin("POST", "/jobs/brought/become", {"status": "Completed"})
    proxied_home.home.gofer("wait", "brought")
    assert "first\nsecond\n" in proxied_home.home.gofer("q", "brought").out
    proxied_home.forget()
    done = proxied_home.home.gofer("q", "brought")
    assert "first\nsecond\n" in done.out and LOG in done.out
    assert proxied_home.request_counts() == {}
    assert proxied_home.relay.bytes_down == 0


def test_a_copy_that_went_away_is_brought_again(proxied_home: ProxiedHome) -> None:
    proxied_home.leave("again", b"kept\n")
    proxied_home.home.gofer("q", "again")
    copy = proxied_home.home.folder / "assets/again" / LOG
    copy.unlink()
    assert "kept" in proxied_home.home.gofer("q", "again").out
    assert copy.read_bytes() == b"kept\n"


def test_a_run_of_gofer_needs_no_second_request(proxied_home: ProxiedHome) -> None:
    run = proxied_home.home.submit("echo", "hello")
    proxied_home.home.gofer("wait", run)
    assert "hello" in proxied_home.home.gofer("q", run).out
    copy = proxied_home.home.folder / "assets" / run / LOG
    assert "hello" in copy.read_text()
    proxied_home.forget()
    assert str(copy.relative_to(proxied_home.home.folder)) in proxied_home.home.gofer("q", run).out
    assert proxied_home.request_counts() == {}


def test_a_copy_longer_than_the_log_is_of_another(proxied_home: ProxiedHome) -> None:
    """A service that starts a job again may begin its log again."""
    proxied_home.leave("begun", b"a long first word\n", "Running")
    proxied_home.home.gofer("q", "begun")
    proxied_home.log_blob("begun").create_append_blob()
    proxied_home.grow("begun", b"short\n")
    proxied_home.home.gofer("q", "begun")
    assert (proxied_home.home.folder / "assets/begun" / LOG).read_bytes() == b"short\n"
