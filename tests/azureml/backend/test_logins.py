"""The ways to a token, on the simulator: service principal, managed identity, device code, in their order."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from services.azure import Azure

from simulators.azure.tokens import VOUCHER

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-logins")]
_HEAD = """
import os, sys
from gofer.errors import GoferError
from gofer.transport.azure.arm import Arm
from gofer.transport.azure.cloud import find_cloud, in_cloud
from gofer.transport.azure.credential import AzureCredential, device_code, sign_out
folder = os.environ["FOLDER"]
cloud = find_cloud(os.environ, folder)
credential = AzureCredential(folder, authority=cloud.authority)
def subscriptions():
    return len(Arm(cloud, credential).get("/subscriptions", "2022-12-01")["value"])
try:
    {code}
except GoferError as error:
    print(type(error).__name__, error.message)
"""
OFFICIAL = """
    import azure.identity
    whose = {"tenant_id": os.environ["AZURE_TENANT_ID"], "client_id": os.environ["AZURE_CLIENT_ID"]}
    more = {"authority": cloud.authority, "disable_instance_discovery": True}
    secret, voucher = (os.environ.get(name) for name in ("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"))
    if secret:
        made = azure.identity.ClientSecretCredential(**whose, client_secret=secret, **more)
    else:
        made = azure.identity.WorkloadIdentityCredential(**whose, token_file_path=voucher, **more)
    made.get_token(cloud.scope)
""".strip()
ASK = "print(credential.who, subscriptions())"


class Person:
    """Who is signed in as `azure.env()` says, but for what a test takes away or adds."""

    def __init__(self, azure: Azure, folder: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AZURE_", "ARM_"))}
        self.environ = {**kept, **azure.env(), "FOLDER": str(folder / "azure"), "HOME": str(folder)}
        self.environ["PATH"] = str(folder)  # no `az` here

    def argv(self, code: str) -> list[str]:
        return [sys.executable, "-u", "-c", _HEAD.format(code=code)]

    def run(self, code: str, **env: str) -> str:
        environ = {**self.environ, **env}
        done = subprocess.run(
            self.argv(code), env=environ, capture_output=True, text=True, timeout=100, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout.strip()


@pytest.fixture
def person(tmp_path: Path, azure: Azure) -> Person:
    return Person(azure, tmp_path)


def test_a_service_principal(person: Person) -> None:
    assert person.run(ASK).startswith("principal ") and person.run(ASK).endswith(" 1")


def test_a_secret_that_is_wrong(person: Person) -> None:
    result = person.run(ASK, AZURE_CLIENT_SECRET="dummy-wrong")
    assert (
        result.startswith("CredentialError the login of the service principal") and "AADSTS7000215" in result
    )
    assert "dummy-wrong" not in result


def test_a_principal_that_another_service_vouches_for(person: Person) -> None:
    person.environ.pop("AZURE_CLIENT_SECRET")
    voucher = person.folder / "voucher"
    person.environ["AZURE_FEDERATED_TOKEN_FILE"] = str(voucher)
    assert person.run(ASK).startswith(f"GoferError `{voucher}` cannot be read: ")
    voucher.write_text("dummy-of-somebody-else\n")
    result = person.run(ASK)
    assert (
        result.startswith("CredentialError the login of the service principal") and "AADSTS700211" in result
    )
    assert "dummy-of-somebody-else" not in result
    voucher.write_text(f"{VOUCHER}\n")
    assert person.run(ASK).startswith("principal ") and person.run(ASK).endswith(" 1")


def test_a_principal_with_a_certificate(person: Person) -> None:
    person.environ.pop("AZURE_CLIENT_SECRET")
    key = person.folder / "principal.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=dummy"]
    argv += ["-keyout", f"{key}.key", "-out", f"{key}.crt"]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    key.write_text(Path(f"{key}.key").read_text() + Path(f"{key}.crt").read_text())
    result = person.run(ASK, AZURE_CLIENT_CERTIFICATE_PATH=str(key))
    assert result.startswith("principal ") and result.endswith(" 1")


@pytest.mark.parametrize("proof", ["AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"])
def test_what_is_sent_for_a_principal_is_what_azure_identity_sends(
    person: Person, azure: Azure, proof: str
) -> None:
    """gofer asks by itself, for azure-identity is long to import: it asks for the same, in the same words."""
    voucher = person.folder / "voucher"
    voucher.write_text(VOUCHER)
    if proof == "AZURE_FEDERATED_TOKEN_FILE":
        person.environ.pop("AZURE_CLIENT_SECRET")
        person.environ[proof] = str(voucher)
    forms = []
    for code in ("credential.token(cloud.scope)", OFFICIAL):
        azure.admin("POST", "/request-log", {})
        assert person.run(code) == ""
        requests = [one for one in azure.admin("GET", "/request-log")["requests"] if one["method"] == "POST"]
        (asked,) = [one for one in requests if one["path"].endswith("/token")]
        forms.append((asked["path"], dict(parse_qsl(asked["body"]))))
    (ours, theirs) = forms
    # The SDK also asks for the identity of a user; an application has none.
    assert theirs[1].pop("client_info", "1") == "1"
    assert ours == theirs


def test_a_service_that_fails_once_is_asked_again(person: Person, azure: Azure) -> None:
    azure.fault("status", "/oauth2/v2.0/token", status=503, count=2)
    assert person.run(ASK).endswith(" 1")
    (person.folder / "azure" / "tokens").rename(person.folder / "tokens-before")
    azure.fault("drop-after", "/oauth2/v2.0/token", count=2)
    assert person.run(ASK).endswith(" 1")


def test_a_secret_is_not_sent_without_encryption(person: Person) -> None:
    output = person.run("AzureCredential(folder, authority='http://127.0.0.1:1').token(cloud.scope)")
    assert output == "CredentialError the secret would be sent to `127.0.0.1:1` without encryption"


def test_a_managed_identity(person: Person, azure: Azure) -> None:
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"):
        person.environ.pop(name)
    secret = (azure.folder / "node.token").read_text()
    result = person.run(ASK, IDENTITY_ENDPOINT=f"{azure.plain}/msi/identity", IDENTITY_HEADER=secret)
    assert result == "managed identity 1"


def test_nobody_and_then_a_device_code(person: Person, azure: Azure) -> None:
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        person.environ.pop(name)
    assert person.run(ASK) == "NobodySignedIn not signed in to Azure"
    code = "device_code(cloud.scope, print, folder=folder, environ=os.environ, authority=cloud.authority)"
    child = subprocess.Popen(person.argv(code), env=person.environ, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert "code" in child.stdout.readline()
    azure.admin("POST", "/device/approve", {})
    child.communicate(timeout=100)
    assert child.returncode == 0
    (kept,) = (person.folder / "azure" / "device").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert person.run(ASK).startswith("device code in ") and person.run(ASK).endswith(" 1")
    other = person.run("print(len(credential.token('https://storage.azure.com/.default').value) > 20)")
    assert other == "True"
    assert person.run("print(sign_out(folder), sign_out(folder))") == "True False"
    assert person.run(ASK) == "NobodySignedIn not signed in to Azure"


def test_the_description_of_a_cloud_is_kept(person: Person, azure: Azure) -> None:
    person.run("print(cloud.arm)")
    azure.admin("DELETE", "/counters")
    assert person.run("print(cloud.arm)") == azure.base
    assert "GET /metadata/endpoints" not in azure.admin("GET", "/counters")["requests"]
    (person.folder / "azure" / "cloud.json").write_text("{")
    assert person.run("print(cloud.arm)") == azure.base


def test_a_lost_answer_about_the_cloud_is_no_failure(person: Person, azure: Azure) -> None:
    azure.fault("drop-after", "/metadata/endpoints", count=2)
    assert person.run("print(cloud.arm)") == azure.base


def test_clouds_by_name(person: Person) -> None:
    person.environ.pop("ARM_CLOUD_METADATA_URL")
    person.environ.pop("AZURE_AUTHORITY_HOST")
    assert person.run("print(cloud.arm)") == "https://management.azure.com"
    output = person.run(
        "print([find_cloud(in_cloud(name, os.environ), folder).arm for name in ('usgov', 'china')])"
    )
    assert output.split("'")[1::2] == [
        "https://management.usgovcloudapi.net",
        "https://management.chinacloudapi.cn",
    ]
    text = person.run("find_cloud(in_cloud('moon', os.environ), folder)")
    assert "gofer does not know an Azure cloud `moon`" in text


def test_the_cloud_that_az_is_in(person: Person) -> None:
    """As `az cloud set` writes it; AZURE_CLOUD_NAME goes before it, for gofer as for `az`."""
    person.environ.pop("ARM_CLOUD_METADATA_URL")
    person.environ.pop("AZURE_AUTHORITY_HOST")
    (person.folder / ".azure").mkdir()
    config = person.folder / ".azure" / "config"
    config.write_text("[core]\ncollect_telemetry = no\n[cloud]\nname = AzureUSGovernment\n")
    assert person.run("print(cloud.authority)") == "https://login.microsoftonline.us"
    chosen = person.run("print(cloud.authority)", AZURE_CLOUD_NAME="azurechinacloud")
    assert chosen == "https://login.chinacloudapi.cn"
    config.write_text("name = there is no section\n[cloud")
    assert person.run("print(cloud.authority)") == "https://login.microsoftonline.com"
