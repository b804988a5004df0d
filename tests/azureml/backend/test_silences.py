"""Moments in which nobody answers: a login is gone, a service refuses, logs cannot be opened."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from home import until
from services.azure import Azure

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-silences")]
LOG = "user_logs/std_log.txt"


def state(home: AzureHome, run: str) -> tuple[str, str | None]:
    found = json.loads(home.gofer("query", "--json", run).out)
    return found["state"], found["reason"]


def sign_out(home: AzureHome) -> dict[str, str]:
    """The variables of the login, which are gone now."""
    names = ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID")
    return {name: home.environ.pop(name) for name in names}


def test_without_a_login_the_error_says_that_the_run_is_recorded(home: AzureHome, azure: Azure) -> None:
    home.gofer("wait", home.submit("true"))
    login = sign_out(home)
    done = home.gofer("submit", "true", status=1)
    assert "not signed in to Azure" in done.err
    assert "is recorded, and the next command that can sends it" in done.err
    home.environ |= login
    home.gofer("wait", "last")
    assert state(home, "last") == ("succeeded", None)


def test_a_run_that_was_never_sent_is_stopped_without_being_sent(home: AzureHome, azure: Azure) -> None:
    home.gofer("wait", home.submit("true"))
    login = sign_out(home)
    home.gofer("submit", "touch", "it-ran", status=1)
    done = home.gofer("abort", "last", status=1)
    assert "will not be sent" in done.err
    home.environ |= login
    assert state(home, "last") == ("cancelled", "user")
    run = json.loads(home.gofer("query", "--json", "last").out)["id"]
    assert azure.arm("GET", f"/jobs/{run}")[0] == 404
    assert not [name for name in home.blobs("rooms") if name.endswith("private.json")]
    assert not [*home.path.rglob(f"{run}*private*"), *home.path.rglob(f"sealed/{run}*")]
    assert "has already ended" in home.gofer("abort", run).err


@pytest.mark.parametrize("words", [(), ("--each", "s=600,601")], ids=["run", "array"])
def test_a_run_that_the_service_has_after_all_is_stopped_later(
    home: AzureHome, azure: Azure, words: tuple[str, ...]
) -> None:
    """The job arrived, the answer did not, and then nothing could be asked."""
    home.gofer("wait", home.submit("true"))
    azure.fault("drop-after", "/jobs/r", method="PUT", count=1)
    azure.fault("status", "/jobs", count=1000, status=403)
    try:
        home.gofer("submit", *words, "sleep", "600", status=1)
        assert "will not be sent" in home.gofer("abort", "last", status=1).err
    finally:
        azure.admin("DELETE", "/faults")
    until(lambda: state(home, "last")[0] == "cancelled", "it was stopped")


def test_wait_continues_while_the_service_does_not_answer(
    home: AzureHome, azure: Azure, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    run = home.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.2; done")
    azure.wait(run, "Running")
    waiting = subprocess.Popen(
        home.argv("wait", run),
        cwd=home.folder,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    output = waiting.stderr.readline()
    assert "running" in output or "queued" in output or "starting" in output, output
    azure.fault("status", "/jobs", count=1000, status=403)
    try:
        while "still waiting" not in output:
            line = waiting.stderr.readline()
            assert line, output
            output += line
    finally:
        azure.admin("DELETE", "/faults")
        go.touch()
    out, rest = waiting.communicate(timeout=200)
    assert (waiting.returncode, out) == (0, f"{run} succeeded\n"), output + rest
    assert "connection restored" in rest


def test_a_log_that_cannot_be_opened_does_not_empty_its_copy(home: AzureHome, azure: Azure) -> None:
    text = "one\ntwo\n"
    azure.admin("POST", "/jobs", {"name": "old-1", "status": "Running", "logs": {LOG: text}})
    home.gofer("q", "old-1")
    copy = home.folder / "assets/old-1" / LOG
    assert copy.read_text() == text
    azure.admin("POST", "/clock", {"skew_s": -2 * 3600.0})  # what it signs now ended an hour ago
    try:
        done = home.gofer("q", "old-1", status=1)
    finally:
        azure.admin("POST", "/clock", {"skew_s": 0.0})
    assert "answered 403 to a request for the log" in done.err
    assert copy.read_text() == text
    assert "two" in home.gofer("q", "old-1").out
