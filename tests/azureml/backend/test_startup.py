"""Modules that commands load: no Azure module for runs elsewhere, and never an SDK."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys

import pytest
from azureml.backend.azure_home import AzureHome
from services.azure import Azure

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-startup")]


def loaded(home: AzureHome, *words: str) -> set[str]:
    """The modules that a command imports."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [sys.executable, "-X", "importtime", "-m", "gofer", *words]
    done = subprocess.run(
        argv, cwd=home.folder, env=home.environ, capture_output=True, text=True, timeout=100, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-2000:]
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"gofer {words[0]}: {took_s:.3f} s of the processor, with a note of every import")
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line}


def test_what_is_loaded(home: AzureHome, azure: Azure) -> None:
    runs = {login: home.submit("true") for login in ("kept", "new")}
    for login, run in runs.items():
        azure.wait(run)
        if login == "new":
            shutil.rmtree(home.queue_home / "azure" / "tokens")
        asked = loaded(home, "query", run)
        assert "azure.core.pipeline" in asked
        assert not {"azure.identity", "azure.ai.ml", "requests", "msal"} & asked, login
    ended = loaded(home, "list", "runs")
    assert not [name for name in ended if name.partition(".")[0] == "azure" or "azureml" in name]
    planned = loaded(home, "submit", "--dry-run", "true")
    assert not [name for name in planned if name.startswith("azure.core")]
