"""`gofer login`, `logout` and `account`: profiles side by side, through a stateful `az` in the PATH."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from azureml.account.programs import Program, install_az
from home import Home

TOKEN = "dummy-token-of-az"


@pytest.fixture
def az(home: Home, tmp_path: Path) -> Program:
    return install_az(tmp_path / "bin", token=TOKEN)


def show(home: Home, *words: str, **environ: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.gofer("account", "show", "--json", *words, env=environ).out)
    return found


def test_the_default_profile_is_the_persons_own(home: Home, az: Program, tmp_path: Path) -> None:
    facts = json.loads(home.gofer("login", "--json").out)
    assert (facts["profile"], facts["user"]) == ("default", "dummy.person@example.invalid")
    assert (tmp_path / "person" / ".azure" / "azureProfile.json").exists()
    assert [one["id"] for one in facts["subscriptions"]] == ["sub-one", "sub-two"]
    assert not (home.path / "azure").exists()
    home.gofer("logout")
    assert show(home)["user"] is None
    assert "not signed in to the profile" in home.gofer("logout").err


def test_profiles_stand_side_by_side(home: Home, az: Program, tmp_path: Path) -> None:
    home.gofer("login")
    own = (tmp_path / "person" / ".azure" / "azureProfile.json").read_bytes()
    az.set(subscriptions=["sub-work"])
    home.gofer("login", "--profile", "work", "--tenant", "work.invalid")
    folder = home.path / "azure" / "work"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert az.calls[-1]["folder"] == str(folder)
    assert (tmp_path / "person" / ".azure" / "azureProfile.json").read_bytes() == own
    rows = json.loads(home.gofer("account", "list", "--json").out)
    assert [(row["profile"], row["is_active"], row["tenant"]) for row in rows] == [
        ("default", True, "11111111-1111-1111-1111-111111111111"),
        ("work", False, "work.invalid"),
    ]
    home.gofer("logout", "--profile", "work")
    assert show(home, "work")["user"] is None
    assert show(home)["user"] == "dummy.person@example.invalid"


def test_a_login_in_another_cloud(home: Home, az: Program) -> None:
    """The folder is kept with the profile until the logout; `az` gets it in its own variable."""
    output = json.loads(home.gofer("login", "--profile", "gov", "--cloud", "usgov", "--json").out)
    assert output["cloud"] == "usgov"
    assert az.calls[-1]["cloud"] == "AzureUSGovernment"
    assert [show(home, name)["cloud"] for name in ("gov", "default")] == ["usgov", "azure"]
    assert show(home, "gov", AZURE_CLOUD_NAME="AzureChinaCloud")["cloud"] == "china"
    assert ["cloud", "usgov"] in [
        line.split() for line in home.gofer("account", "show", "gov").out.splitlines()
    ]
    home.gofer("logout", "--profile", "gov")
    assert show(home, "gov")["cloud"] == "azure"
    refused = home.gofer("login", "--profile", "gov", "--cloud", "moon", status=2).err
    assert "usgov" in refused


def test_which_profile_is_in_use(home: Home, az: Program) -> None:
    for name in ("work", "home"):
        home.gofer("login", "--profile", name)
    assert show(home)["chosen_by"] == "built-in"
    home.gofer("account", "use", "work")
    assert (show(home)["profile"], show(home)["chosen_by"]) == ("work", "`gofer account use`")
    assert show(home, GOFER_AZURE_PROFILE="home")["profile"] == "home"
    assert show(home, AZURE_CONFIG_DIR="/elsewhere")["folder"] == "/elsewhere"
    done = home.gofer("account", "use", "home", env={"GOFER_AZURE_PROFILE": "work"})
    assert "env GOFER_AZURE_PROFILE takes precedence" in done.err
    home.gofer("account", "use", "default")
    assert show(home)["profile"] == "default"


def test_a_profile_in_use_that_is_removed(home: Home, az: Program) -> None:
    home.gofer("login", "--profile", "work")
    assert json.loads(home.gofer("account", "use", "work", "--json").out)["is_active"]
    assert json.loads(home.gofer("account", "rm", "work", "--json").out)["removed"]
    assert not (home.path / "azure" / "work").exists()
    assert show(home)["profile"] == "default"
    assert az.calls[-1]["words"] == ["account", "clear"]
    done = home.gofer("account", "rm", "default", status=2)
    assert "is never removed" in done.err


@pytest.mark.parametrize(
    "words", [("account", "use", "wrok"), ("account", "show", "wrok"), ("account", "rm", "wrok")]
)
def test_a_profile_that_is_not_there(home: Home, az: Program, words: tuple[str, ...]) -> None:
    home.gofer("login", "--profile", "work")
    done = home.gofer(*words, status=2)
    assert "there is no Azure profile `wrok`" in done.err
    assert "did you mean `work`?" in done.err


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "", "a b", "x" * 101])
def test_names_that_cannot_be(home: Home, az: Program, name: str) -> None:
    if name:
        assert "cannot be the name of a profile" in home.gofer("login", "--profile", name, status=2).err
        assert az.calls == []
    home.gofer("account", "use", name, status=2)


@pytest.mark.parametrize(
    ("environ", "by_code"),
    [
        ({}, True),
        ({"DISPLAY": ":0"}, False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, True),
    ],
)
def test_a_code_where_no_browser_would_be_seen(
    home: Home, az: Program, environ: dict[str, str], by_code: bool
) -> None:
    home.gofer("login", env=environ)
    assert ("--use-device-code" in az.calls[-1]["words"]) == by_code
    home.gofer("login", "--device-code", env={"DISPLAY": ":0"})
    assert "--use-device-code" in az.calls[-1]["words"]


def test_a_service_principal_by_stdin(home: Home, az: Program) -> None:
    environ = {"AZURE_CLIENT_ID": "dummy-app", "AZURE_CLIENT_SECRET": "dummy-client-secret"}
    words = ["login", "--service-principal", "--tenant", "t.invalid", "--json"]
    facts = json.loads(home.gofer(*words, env=environ).out)
    assert (facts["user"], facts["user_kind"]) == ("dummy-app", "servicePrincipal")
    assert az.calls[-1]["read"] == "dummy-client-secret"
    assert "dummy-client-secret" not in json.dumps([call["words"] for call in az.calls])
    done = home.gofer(*words, status=1, env={**environ, "AZURE_CLIENT_SECRET": "wrong-dummy-secret"})
    assert "AADSTS7000215" in done.err
    words = [*words[:-1], "--profile", "other"]
    home.gofer(*words, status=1, env={**environ, "AZURE_CLIENT_SECRET": "wrong-dummy-secret"})
    assert [row["profile"] for row in json.loads(home.gofer("account", "--json").out)] == ["default"]
    assert "`az login` ended with status 1" in done.err
    assert "wrong-dummy-secret" not in done.err
    assert "AZURE_CLIENT_ID" in home.gofer(*words, status=2).err


def test_a_secret_read_from_stdin(home: Home, az: Program) -> None:
    argv = home.argv("login", "--service-principal", "--tenant", "t.invalid")
    environ = {**home.environ, "AZURE_CLIENT_ID": "dummy-app"}
    done = subprocess.run(
        argv, env=environ, input=b"dummy-client-secret\n", capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert az.calls[-1]["read"] == "dummy-client-secret"


PROBE = """
import os, sys
from gofer.ops.accounts.azure_account import token_folder
from gofer.ops.session import Session
from gofer.transport.azure.cloud import find_cloud
from gofer.transport.azure.credential import AzureCredential
before = dict(os.environ)
with Session() as session:
    folder, around = token_folder(session.paths), session.azure_environ("this test")
    credential = AzureCredential(folder, around, authority=find_cloud(around, folder).authority)
    print(credential.token("https://management.azure.com/.default").value)
assert os.environ == before
"""


def test_tokens_show_their_expiry_and_are_removed_at_logout(home: Home, az: Program) -> None:
    home.gofer("login", "--profile", "work")
    home.gofer("account", "use", "work")
    environ = {**home.environ}
    argv = [sys.executable, "-c", PROBE]
    asked = subprocess.run(
        argv, env=environ, cwd=home.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert asked.stdout.strip() == TOKEN, asked.stderr
    assert az.calls[-1]["folder"] == str(home.path / "azure" / "work")
    done = home.gofer("account", "show")
    assert "https://management.azure.com/.default: " in done.out
    assert 3000 < show(home)["tokens"][0]["left_s"] <= 3600
    assert TOKEN not in done.out + done.err
    (kept,) = [path for path in home.path.rglob("*.json") if TOKEN in path.read_text(errors="replace")]
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert show(home, "default")["tokens"] == []
    home.gofer("logout")
    assert not kept.exists()
    assert show(home)["tokens"] == []


def test_a_missing_profile_is_an_error_before_any_request(home: Home, az: Program) -> None:
    home.configure("stores: {blob: {url: 'az://data', account: dummyone}}\n")
    done = home.gofer("store", "check", "blob", status=1, env={"GOFER_AZURE_PROFILE": "gone"})
    assert "there is no Azure profile `gone`" in done.out
    assert az.calls == []


def test_without_az_a_principal_needs_no_login(home: Home) -> None:
    environ = {"AZURE_CLIENT_ID": "dummy-app", "AZURE_CLIENT_SECRET": "dummy-client-secret"}
    done = home.gofer("login", "--service-principal", "--tenant", "t.invalid", status=2, env=environ)
    assert "gofer reads it from the environment" in done.err


def test_completion_knows_profiles_and_images(home: Home, az: Program) -> None:
    home.gofer("login", "--profile", "work")
    home.configure("dockers: {mine: {image: x}}\n")

    def completed(*words: str) -> list[str]:
        environ = {
            "_GOFER_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["gofer", *words]),
            "COMP_CWORD": str(len(words)),
        }
        lines = home.gofer(env=environ).out.split()
        return [line.partition(",")[2] for line in lines]

    assert completed("account", "use", "w") == ["work"]
    assert completed("image", "wrap", "m") == ["mine"]
    assert completed("doctor", "a") == ["azure"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"subscriptions": [{"id": "x", "user": "me"}]}',
        '{"subscriptions": [{"id": "x", "user": [1]}]}',
        '{"subscriptions": [5]}',
        '{"subscriptions": {"a": 1}}',
        "\x00",
    ],
)
def test_a_profile_that_another_program_wrote_is_no_trouble(home: Home, az: Program, text: str) -> None:
    folder = home.path / "azure" / "work"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "azureProfile.json").write_text(text)
    rows = json.loads(home.gofer("account", "list", "--json").out)
    assert [(row["profile"], row["user"] or "") for row in rows][1:] == [("work", "")]
