"""`gofer login` without `az`: a code typed elsewhere, and a login that later commands live on."""

from __future__ import annotations

import json
import re
import stat
import threading
import time
from typing import Any

import pytest
from home import Done, Home
from services.azure import Azure
from services.azure import azure as azure

pytestmark = pytest.mark.xdist_group("azure-device-login")


def approve(azure: Azure, done: threading.Event) -> None:
    """Plays the person: approves whatever waits, until there is nothing more to do."""
    deadline = time.monotonic() + 300
    while not done.is_set() and time.monotonic() < deadline:
        azure.admin("POST", "/device/approve", {})
        time.sleep(0.2)


def sign_in(home: Home, azure: Azure) -> Done:
    done = threading.Event()
    person = threading.Thread(target=approve, args=(azure, done))
    person.start()
    try:
        return home.gofer("login", "--profile", "work", "--json")
    finally:
        done.set()
        person.join()


def lose_tokens(home: Home) -> None:
    """As an hour later: all that is left is what renews them."""
    for path in (home.queue_home / "azure" / "tokens").glob("*.json"):
        path.unlink()
    for path in (home.queue_home / "azure" / "device").glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "AccessToken": {}}))


def login_check(home: Home, *, status: int) -> dict[str, Any]:
    found = json.loads(home.gofer("doctor", "azure", "--json", status=status).out)
    (login,) = [one for one in found if one["name"] == "login"]
    return dict(login)


def test_a_code_and_then_commands_without_one(home: Home, azure: Azure) -> None:
    gone = ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
    home.environ |= {name: value for name, value in azure.env().items() if name not in gone}
    result = sign_in(home, azure)
    facts = json.loads(result.out)
    assert facts["device_login"]
    assert re.search(r"code [A-Z0-9-]+", result.err), result.err
    home.gofer("account", "use", "work")
    lose_tokens(home)
    login = login_check(home, status=0)
    assert login["detail"].startswith("device code"), login
    azure.admin("POST", "/identity", {"signed_out": True})
    try:
        lose_tokens(home)
        login = login_check(home, status=1)
    finally:
        azure.admin("POST", "/identity", {"signed_out": False})
    assert login["detail"] == "the login by device code of the profile `work` has expired"
    assert login["hint"] == "`gofer login --profile work --device-code`"
    kept = [
        path for path in (home.queue_home / "azure").rglob("*.json") if "RefreshToken" in path.read_text()
    ]
    assert [stat.S_IMODE(path.stat().st_mode) for path in kept] == [0o600]
    home.gofer("logout")
    assert not [path for path in kept if path.exists()]
    assert home.gofer("doctor", "azure", status=1).out.count("not signed in") == 1
