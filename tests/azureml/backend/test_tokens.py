"""The token cache: which commands read it, when a new token is requested, and which files are ignored."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gofer.errors import CredentialError
from gofer.transport.azure.credential import AzureCredential, sign_out
from gofer.transport.azure.problems import NobodySignedIn
from gofer.transport.azure.tokens import Token, TokenFiles

AUTHORITY = "https://login.microsoftonline.com"
SCOPE = "https://management.azure.com/.default"
_AZ = """#!{python}
import json, os, sys, time
folder = os.environ["AZURE_CONFIG_DIR"] if "AZURE_CONFIG_DIR" in os.environ else {home!r}
path = os.path.join(folder, "asked")
asked = int(open(path).read()) + 1 if os.path.exists(path) else 1
open(path, "w").write(str(asked))
print(json.dumps({{"accessToken": f"dummy {{os.path.basename(folder)}} {{asked}} {{sys.argv[4]}}",
                   "expires_on": int(time.time()) + {lasts}}}))
"""


def signed_in(folder: Path, *, lasts: int = 3600) -> dict[str, str]:
    """An environment with an `az` that gives tokens, numbered."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "home" / ".azure").mkdir(parents=True, exist_ok=True)
    az = folder / "bin" / "az"
    az.write_text(_AZ.format(python=sys.executable, home=str(folder / "home" / ".azure"), lasts=lasts))
    az.chmod(0o755)
    return {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder / "home")}


@pytest.fixture
def login_environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = signed_in(tmp_path)
    monkeypatch.setenv("PATH", found["PATH"])
    return found


def credential_of(folder: Path, login_environ: dict[str, str], **more: Any) -> AzureCredential:
    """What is kept of it lies under `folder`."""
    return AzureCredential(str(folder / "kept"), login_environ, authority=AUTHORITY, **more)


def only_file(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "kept" / "tokens").glob("*.json")
    return found


def test_a_token_is_kept_for_its_owner_alone(tmp_path: Path, login_environ: dict[str, str]) -> None:
    first = credential_of(tmp_path, login_environ).token(SCOPE)
    assert first.value == "dummy .azure 1 https://management.azure.com"
    assert credential_of(tmp_path, login_environ).token(SCOPE) == first
    assert stat.S_IMODE(only_file(tmp_path).stat().st_mode) == 0o600
    assert first.value not in repr(first)


def test_each_scope_has_its_own(tmp_path: Path, login_environ: dict[str, str]) -> None:
    credential = credential_of(tmp_path, login_environ)
    assert credential.token(SCOPE).value != credential.token("https://storage.azure.com/.default").value
    assert len(list((tmp_path / "kept" / "tokens").glob("*.json"))) == 2


def test_a_token_that_expires_soon_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login_environ = signed_in(tmp_path, lasts=299)
    monkeypatch.setenv("PATH", login_environ["PATH"])
    values = {credential_of(tmp_path, login_environ).token(SCOPE).value for _ in range(2)}
    assert len(values) == 2


def test_a_file_that_others_can_read_is_not_believed(tmp_path: Path, login_environ: dict[str, str]) -> None:
    first = credential_of(tmp_path, login_environ).token(SCOPE)
    only_file(tmp_path).chmod(0o644)
    assert credential_of(tmp_path, login_environ).token(SCOPE) != first
    assert stat.S_IMODE(only_file(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"who": "x"}', b'{"who":1,"scope":2,"token":3,"expires_at":"x"}']
)
def test_a_damaged_file_is_ignored(tmp_path: Path, login_environ: dict[str, str], damage: bytes) -> None:
    first = credential_of(tmp_path, login_environ).token(SCOPE)
    only_file(tmp_path).write_bytes(damage)
    assert credential_of(tmp_path, login_environ).token(SCOPE) != first


def test_a_file_under_the_wrong_name_is_not_believed(tmp_path: Path) -> None:
    files = TokenFiles(str(tmp_path))
    files.write("one", SCOPE, Token("dummy", time.time() + 3600))
    (path,) = (tmp_path / "tokens").glob("*.json")
    held = json.loads(path.read_text())
    path.write_text(json.dumps({**held, "who": "two"}))
    assert files.read("one", SCOPE) is None


def test_profiles_of_az_are_kept_apart(tmp_path: Path, login_environ: dict[str, str]) -> None:
    values = set()
    for name in ("work", "own"):
        (tmp_path / name).mkdir()
        own = {**login_environ, "AZURE_CONFIG_DIR": str(tmp_path / name)}
        values |= {credential_of(tmp_path, own).token(SCOPE).value for _ in range(2)}
    assert {value.split()[1] for value in values} == {"work", "own"} and len(values) == 2


def test_another_login_of_az_is_noticed(tmp_path: Path, login_environ: dict[str, str]) -> None:
    profile = tmp_path / "home" / ".azure" / "azureProfile.json"
    profile.write_text("{}")
    first = credential_of(tmp_path, login_environ).token(SCOPE)
    os.utime(profile, ns=(1, 1))
    assert credential_of(tmp_path, login_environ).token(SCOPE) != first


def test_what_the_service_does_not_take_is_forgotten(tmp_path: Path, login_environ: dict[str, str]) -> None:
    credential = credential_of(tmp_path, login_environ)
    first = credential.token(SCOPE)
    credential.forget(SCOPE)
    assert credential.token(SCOPE) != first
    assert credential.token(SCOPE, claims="{}") != credential.token(SCOPE, claims="{}")


def test_sign_out_forgets_the_profile_and_no_other(tmp_path: Path, login_environ: dict[str, str]) -> None:
    (tmp_path / "work").mkdir()
    other = {**login_environ, "AZURE_CONFIG_DIR": str(tmp_path / "work")}
    kept = str(tmp_path / "kept")
    mine, theirs = (credential_of(tmp_path, one).token(SCOPE) for one in (login_environ, other))
    assert sign_out(kept, login_environ) and not sign_out(kept, login_environ)
    assert credential_of(tmp_path, other).token(SCOPE) == theirs
    assert credential_of(tmp_path, login_environ).token(SCOPE) != mine
    assert [one.scope for one in TokenFiles(kept).held()] == [SCOPE, SCOPE]


def test_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NobodySignedIn):
        credential_of(tmp_path, {"PATH": str(tmp_path), "HOME": str(tmp_path)}).token(SCOPE)


def test_an_az_that_says_something_else(tmp_path: Path, login_environ: dict[str, str]) -> None:
    (tmp_path / "bin" / "az").write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(CredentialError, match="something other than a token"):
        credential_of(tmp_path, login_environ).token(SCOPE)


def test_tokens_are_passed_to_the_function_that_masks_them(
    tmp_path: Path, login_environ: dict[str, str]
) -> None:
    messages: list[str] = []
    found = credential_of(tmp_path, login_environ, remember=messages.append).token(SCOPE)
    assert messages == [found.value]
