"""`gofer doctor azure`: each thing that goes wrong, caused for real, is found and comes with its remedy."""

from __future__ import annotations

import http.server
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azureml.account.programs import Program, install_az
from home import Home
from services.azure import Azure
from services.azure import azure as azure
from services.process import free_port

pytestmark = pytest.mark.xdist_group("azure-doctor-azure")

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
TARGET = f"kind: azureml, subscription_id: {SUBSCRIPTION}, resource_group: sim-group, workspace: sim-ws"
AML = f"{TARGET}, compute: gpu-cluster, gpus_per_node: 4"
SINGULARITY = f"{TARGET}, platform: singularity, virtual_cluster: sim-vc, instance_type: ND40_v2g1"


class DoctorSetup:
    """A home pointed at the simulator, with a store of its own in it."""

    def __init__(self, home: Home, azure: Azure) -> None:
        self.home = home
        self.azure = azure
        self.container = azure.container()
        self.home.environ |= azure.env()
        self.write(AML)

    def write(self, target: str, *, permissions: str = "rwdlc", hours: float = 100.0, more: str = "") -> None:
        """The settings: one target and its store, opened by a SAS."""
        one = self.azure.account()
        sas = one.container_sas(self.container, permissions, hours=hours)
        secrets = self.home.path / "secrets.json"
        secrets.parent.mkdir(parents=True, exist_ok=True)
        secrets.touch(0o600)
        secrets.write_text(json.dumps({"blob-sas": sas}))
        self.home.configure(f"""
target: eus
targets:
  eus: {{{target}, store: blob}}
stores:
  blob: {{url: "az://{self.container}", account: {one.name}, endpoint: "{one.endpoint}",
    sas: "${{secret:blob-sas}}"}}
{more}""")

    def check(self, *words: str, env: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
        """The checks by name; the exit status must say whether one failed."""
        done = self.home.gofer("doctor", "azure", *words, "--json", status=None, env=env)
        assert done.out, done.err
        found = {one["name"]: one for one in json.loads(done.out)}
        assert done.status == int(any(one["status"] == "fail" for one in found.values())), done.out
        return found


@pytest.fixture
def doctor(home: Home, azure: Azure) -> DoctorSetup:
    return DoctorSetup(home, azure)


def is_wrong(found: dict[str, dict[str, Any]], name: str, words: str, hint: str) -> None:
    """That check failed, with these words, and what mends it."""
    assert name in found, sorted(found)
    one = found[name]
    assert one["status"] == "fail", one
    assert words in one["detail"], one
    assert hint in (one["hint"] or ""), one


def test_all_is_well_without_any_program_of_azure(doctor: DoctorSetup) -> None:
    found = doctor.check()
    assert [one for one in found.values() if one["status"] != "ok"] == []
    assert set(found) == {
        "az",
        "login",
        "service",
        "ssh",
        "ssh config",
        "ssh key",
        "other programs",
        "target eus workspace",
        "target eus compute",
        "store blob",
    }
    assert "not needed" in found["az"]["detail"]
    assert "none needed: no azcopy" in found["other programs"]["detail"]
    assert re.search(
        "its SAS has 4d0[34]h left$", found["store blob"]["detail"]
    )  # of 100 hours, less a moment
    assert set(doctor.check("eus")) == set(found)


# Each entry under Troubleshooting in the toolkit's document, and the check that stands for it.
TROUBLE = {
    "Azure CLI not installed": "az",
    "Command timeout": "service",
    "Conda spawning failed": "other programs",
    "Conda environment not found": "other programs",
    "Azcopy not found": "other programs",
    "Permission denied": "store blob",
    "SAS authentication failed": "store blob",
    "Powershell spawning failed": "other programs",
    "Powershell script forbidden": "other programs",
    "Keypath not found": "ssh key",
    "SSH tunnel failed": "ssh config",
}


def test_every_trouble_of_the_document_has_its_check(doctor: DoctorSetup) -> None:
    assert set(TROUBLE.values()) <= set(doctor.check())


@pytest.mark.parametrize(
    ("name", "mode", "check", "words"),
    [
        ("config", 0o664, "ssh config", "others may write to"),
        ("id_ed25519", 0o644, "ssh key", "others may read"),
    ],
)
def test_problems_with_ssh_keys_are_reported(
    doctor: DoctorSetup, name: str, mode: int, check: str, words: str
) -> None:
    path = Path(doctor.home.environ["HOME"]) / ".ssh" / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text("# dummy\n")
    path.chmod(mode)
    is_wrong(doctor.check(), check, words, f"`chmod 600 {path}`")
    path.chmod(0o600)
    one = doctor.check()[check]
    assert (one["status"], one["detail"], one["hint"]) == ("ok", str(path), None)


def test_as_people_see_it(doctor: DoctorSetup) -> None:
    doctor.write(AML.replace("gpu-cluster", "gpu-clutser"))
    done = doctor.home.gofer("doctor", "azure", status=1)
    assert "target eus compute    FAIL  the workspace `sim-ws` has no compute `gpu-clutser`" in done.out
    assert "hint: target eus compute: did you mean `gpu-cluster`?" in done.err


# -- az and logins


def without_principal(doctor: DoctorSetup) -> dict[str, str]:
    """The variables that take the service principal away."""
    return dict.fromkeys(("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"), "")


def az_of(doctor: DoctorSetup, tmp_path: Path, **state: Any) -> Program:
    return install_az(tmp_path / "bin", token=doctor.azure.token(), **state)


def test_nobody_is_signed_in_and_there_is_no_az(doctor: DoctorSetup) -> None:
    found = doctor.check(env=without_principal(doctor))
    is_wrong(found, "login", "not signed in to Azure", "`gofer login`")
    assert found["az"]["status"] == "warn"
    assert "`gofer login` signs in without it" in found["az"]["hint"]
    assert "target eus workspace" not in found


def test_az_is_there_and_nobody_is_signed_in(doctor: DoctorSetup, tmp_path: Path) -> None:
    az_of(doctor, tmp_path)
    found = doctor.check(env=without_principal(doctor))
    is_wrong(found, "login", "not signed in to Azure", "`gofer login`")
    assert found["az"]["detail"] == "2.60.0"


def test_signed_in_by_az_in_a_profile(doctor: DoctorSetup, tmp_path: Path) -> None:
    az_of(doctor, tmp_path)
    environ = {**without_principal(doctor), "GOFER_AZURE_PROFILE": "work"}
    doctor.home.gofer("login", "--profile", "work", env=without_principal(doctor))
    found = doctor.check(env=environ)
    assert found["login"]["status"] == "ok", found["login"]
    assert "dummy.person@example.invalid" in found["login"]["detail"]
    assert "by the profile `work`" in found["login"]["detail"]
    assert found["target eus workspace"]["status"] == "ok"


def test_a_login_that_has_run_out(doctor: DoctorSetup, tmp_path: Path) -> None:
    az = az_of(doctor, tmp_path)
    doctor.home.gofer("login", env=without_principal(doctor))
    az.set(expired=True)
    found = doctor.check(env=without_principal(doctor))
    is_wrong(
        found, "login", "the login of dummy.person@example.invalid has expired (AADSTS700082)", "gofer login"
    )


def test_az_that_reaches_nobody(doctor: DoctorSetup, tmp_path: Path) -> None:
    az = az_of(doctor, tmp_path)
    doctor.home.gofer("login", env=without_principal(doctor))
    az.set(offline=True)
    is_wrong(
        doctor.check(env=without_principal(doctor)),
        "login",
        "cannot reach the login service",
        "network",
    )


def test_an_az_that_is_too_old_or_broken(doctor: DoctorSetup, tmp_path: Path) -> None:
    az = az_of(doctor, tmp_path, version="2.31.0")
    assert doctor.check()["az"]["status"] == "warn"  # another credential works
    found = doctor.check(env=without_principal(doctor))
    is_wrong(found, "az", "2.31.0 is older than 2.32", "az upgrade")
    az.path.write_text("#!/bin/sh\necho no\n")
    is_wrong(doctor.check(env=without_principal(doctor)), "az", "prints no version", "reinstall it")


@pytest.mark.slow
def test_an_az_that_never_ends(doctor: DoctorSetup, tmp_path: Path) -> None:
    az = az_of(doctor, tmp_path)
    az.path.write_text("#!/bin/sh\nexec sleep 100\n")
    is_wrong(doctor.check(), "az", "did not end within 20 s", "VPN")


def test_extensions_that_are_not_there_are_not_needed(doctor: DoctorSetup, tmp_path: Path) -> None:
    az_of(doctor, tmp_path, extensions={})
    found = doctor.check()["az extensions"]
    assert found["status"] == "ok"
    assert "without `ml`, `ssh`; none is needed" in found["detail"]


def test_a_principal_with_a_wrong_secret(doctor: DoctorSetup) -> None:
    found = doctor.check(env={"AZURE_CLIENT_SECRET": "wrong-dummy-secret"})
    is_wrong(found, "login", "is refused (AADSTS7000215)", "AZURE_CLIENT_ID")
    assert "wrong-dummy-secret" not in json.dumps(found)


def test_a_profile_that_is_gone(doctor: DoctorSetup) -> None:
    found = doctor.check(env={**without_principal(doctor), "GOFER_AZURE_PROFILE": "gone"})
    is_wrong(found, "login", "there is no Azure profile `gone`", "gofer login --profile gone")


# -- the service


def test_a_service_that_does_not_answer(doctor: DoctorSetup) -> None:
    dead = f"https://127.0.0.1:{free_port()}"
    cloud = [
        {
            "name": "Away",
            "resourceManager": dead,
            "authentication": {"loginEndpoint": doctor.azure.base},
            "suffixes": {"storage": "x.invalid"},
        }
    ]
    # What was kept of the cloud's description is used without asking.
    folder = doctor.home.queue_home / "azure"
    folder.mkdir(parents=True, exist_ok=True)
    url = doctor.azure.env()["ARM_CLOUD_METADATA_URL"]
    kept = {"url": url, "at": time.time(), "etag": "", "text": json.dumps(cloud)}
    (folder / "cloud.json").write_text(json.dumps(kept))
    is_wrong(doctor.check(), "service", "connection refused", "VPN")


def test_a_certificate_that_is_not_trusted(doctor: DoctorSetup) -> None:
    assert doctor.check()["service"]["status"] == "ok"  # and the description of the cloud is kept
    env = {"SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt", "REQUESTS_CA_BUNDLE": ""}
    is_wrong(doctor.check(env=env), "service", "its certificate is not trusted", "SSL_CERT_FILE")


@pytest.mark.parametrize(("skew_s", "status"), [(120, "warn"), (-3600, "fail")])
def test_a_clock_that_is_off(doctor: DoctorSetup, skew_s: float, status: str) -> None:
    try:
        doctor.azure.admin("POST", "/clock", {"skew_s": skew_s})
        found = doctor.check()["clock"]
    finally:
        doctor.azure.admin("POST", "/clock", {"skew_s": 0})
    assert found["status"] == status
    assert ("behind" if skew_s > 0 else "ahead of") in found["detail"]
    assert "timedatectl" in found["hint"]


@pytest.mark.parametrize(
    ("change", "check", "words", "hint"),
    [
        (
            (SUBSCRIPTION, "0000-other"),
            "target eus subscription",
            "is not among them",
            "gofer login --tenant",
        ),
        (("sim-ws", "sim-wz"), "target eus workspace", "no workspace `sim-wz`", "did you mean `sim-ws`?"),
        (
            ("sim-group", "no-group"),
            "target eus workspace",
            "resource group `no-group`",
            "no workspaces there",
        ),
        (
            ("gpu-cluster", "big"),
            "target eus compute",
            "no compute `big`",
            "the computes there are `cpu-cluster`",
        ),
        ((", compute: gpu-cluster", ""), "target eus", "does not name its `compute`", "targets: eus:"),
        (
            ("gpu-cluster", "gpu-cluster, datastore: gone"),
            "target eus datastore",
            "no datastore `gone`",
            "workspace",
        ),
        (
            ("gpu-cluster", "itp-cluster, platform: itp, instance_type: gpu2"),
            "target eus instance type",
            "no instance type `gpu2`",
            "did you mean",
        ),
    ],
)
def test_what_a_target_names_and_is_not_there(
    doctor: DoctorSetup, change: tuple[str, str], check: str, words: str, hint: str
) -> None:
    doctor.write(AML.replace(*change))
    is_wrong(doctor.check("eus"), check, words, hint)


def test_a_workspace_that_one_may_not_see(doctor: DoctorSetup) -> None:
    words = (
        "The client 'dummy' does not have authorization to perform action "
        "'Microsoft.MachineLearningServices/workspaces/read' over scope '/subscriptions/x'."
    )
    doctor.azure.fault("status", "/workspaces/sim-ws\\?", status=403, message=words, count=1)
    found = doctor.check("eus")
    is_wrong(
        found,
        "target eus",
        "lacks the right `Microsoft.MachineLearningServices/workspaces/read`",
        "AzureML Data Scientist",
    )


def test_a_login_that_the_service_does_not_take(doctor: DoctorSetup) -> None:
    doctor.azure.fault("status", "^/subscriptions\\?", status=401, count=2)
    is_wrong(doctor.check("eus"), "target eus", "Azure refuses the login", "`gofer login`")


def test_singularity_and_its_quota(doctor: DoctorSetup) -> None:
    doctor.write(SINGULARITY)
    found = doctor.check("eus")
    assert found["target eus virtual cluster"]["status"] == "ok"
    image = found["target eus image"]
    assert image["status"] == "ok" and "default image" in image["detail"]
    doctor.write(f"{SINGULARITY.replace('ND40', 'Singularity.ND40')}, image_version: pytorch")
    assert not {"target eus image", "target eus instance type"} & doctor.check("eus").keys()
    assert found["target eus quota"]["detail"] == "0 of 32 used in the tier premium, eastus, southcentralus"
    doctor.write(SINGULARITY.replace("sim-vc", "sim-cv"))
    is_wrong(
        doctor.check("eus"),
        "target eus virtual cluster",
        "no virtual cluster `sim-cv`",
        "did you mean `sim-vc`?",
    )
    doctor.write(SINGULARITY.replace("ND40_v2g1", "ND40_v2g9"))
    is_wrong(doctor.check("eus"), "target eus instance type", "no instance type `ND40_v2g9`", "`ND40_v2g1`?")
    doctor.write(f"{SINGULARITY}, locations: [mars]")
    is_wrong(doctor.check("eus"), "target eus quota", "not in `mars`", "`eastus`")


def test_a_tier_without_quota(doctor: DoctorSetup) -> None:
    limits = {"NDv2": {"Premium": 0, "Standard": 0, "Basic": 4}}
    doctor.azure.admin(
        "POST", "/virtualclusters", {"name": "poor-vc", "locations": ["eastus"], "limits": limits}
    )
    doctor.write(SINGULARITY.replace("sim-vc", "poor-vc"))
    is_wrong(doctor.check("eus"), "target eus quota", "there is no quota", "`sla: basic` has quota")


def test_a_key_for_shells(doctor: DoctorSetup, tmp_path: Path) -> None:
    doctor.write(f"{AML}, interactive: true")
    is_wrong(doctor.check("eus"), "target eus ssh key", "there is no public key", "ssh-keygen -t ed25519")
    folder = tmp_path / "person" / ".ssh"
    folder.mkdir(parents=True)
    (folder / "id_ed25519.pub").write_text("ssh-ed25519 AAAAdummy me@here\n")
    assert doctor.check("eus")["target eus ssh key"]["status"] == "ok"


# -- stores


@pytest.mark.parametrize(
    ("permissions", "lacking"), [("wdlc", "read"), ("rdl", "write"), ("rwlc", "delete"), ("rwdc", "list")]
)
def test_a_sas_that_lacks_a_permission(doctor: DoctorSetup, permissions: str, lacking: str) -> None:
    doctor.write(AML, permissions=permissions)
    found = doctor.check("eus")
    letter = {"read": "r", "write": "w", "delete": "d", "list": "l"}[lacking]
    words = f"its SAS lacks the permission `{lacking}` (`{letter}`)"
    is_wrong(found, f"store blob {lacking}", words, "set another with `gofer secret set blob-sas`")


def test_a_sas_that_has_expired(doctor: DoctorSetup) -> None:
    doctor.write(AML, hours=-2)
    found = doctor.check("eus")
    is_wrong(found, "store blob sas", "expired 2h00m ago", "another `sas`")
    is_wrong(found, "store blob list", "its SAS expired at", "set another with `gofer secret set blob-sas`")


def test_a_store_that_runs_only_read_may_lack_the_right_to_write(doctor: DoctorSetup) -> None:
    doctor.write(AML, permissions="rwdlc")
    one = doctor.azure.account("dummytwo")
    container = doctor.azure.container(account="dummytwo")
    secrets = json.loads((doctor.home.path / "secrets.json").read_text())
    secrets["data-sas"] = one.container_sas(container, "rl", hours=100)
    (doctor.home.path / "secrets.json").write_text(json.dumps(secrets))
    with open(doctor.home.folder / "gofer.yaml", "a") as file:
        file.write(
            f'  data: {{url: "az://{container}", account: dummytwo, endpoint: "{one.endpoint}", '
            'sas: "${secret:data-sas}"}\nfolders: {data: {store: data, path: d, mode: copy}}\n'
        )
    found = doctor.check("eus")
    assert found["store data write"]["status"] == "warn"
    assert found["store data delete"]["status"] == "warn"
    assert not [one for one in found.values() if one["status"] == "fail"]


def test_a_container_that_is_not_there(doctor: DoctorSetup) -> None:
    doctor.container = "nobody-made-it"
    doctor.write(AML)
    is_wrong(
        doctor.check("eus"),
        "store blob list",
        "there is no container `nobody-made-it`",
        "gofer store check blob",
    )


class ForbiddingHandler(http.server.BaseHTTPRequestHandler):
    """A storage account that accepts the login, which has no role on it."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(403)
        self.send_header("x-ms-error-code", "AuthorizationPermissionMismatch")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_HEAD = do_DELETE = do_POST = do_GET

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def forbidding(azure: Azure) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ForbiddingHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(azure.folder / "chain.pem", azure.folder / "leaf.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}/dummyone"
    server.shutdown()
    thread.join()
    server.server_close()


def by_login(doctor: DoctorSetup, tmp_path: Path, endpoint: str) -> dict[str, str]:
    """The variables with which the login of the `az` profile `work` opens the store."""
    install_az(tmp_path / "bin", token=doctor.azure.token("https://storage.azure.com"))
    doctor.home.configure(
        f'stores: {{blob: {{url: "az://{doctor.container}", account: dummyone, endpoint: "{endpoint}"}}}}\n'
    )
    around = {**without_principal(doctor), "AZURE_TOKEN_CREDENTIALS": "AzureCliCredential"}
    doctor.home.gofer("login", "--profile", "work", env=around)
    return {**around, "GOFER_AZURE_PROFILE": "work"}


def test_a_login_without_a_role_on_the_store(doctor: DoctorSetup, tmp_path: Path, forbidding: str) -> None:
    found = doctor.check(env=by_login(doctor, tmp_path, forbidding))
    for verb in ("list", "write"):
        is_wrong(found, f"store blob {verb}", "no role that allows it", "`Storage Blob Data Contributor`")


def test_a_store_opened_by_the_login_of_a_profile(doctor: DoctorSetup, tmp_path: Path) -> None:
    env = by_login(doctor, tmp_path, doctor.azure.account().endpoint)
    found = doctor.check(env=env)
    assert found["store blob"]["status"] == "ok"
    is_signed_out = doctor.check(env={**env, "GOFER_AZURE_PROFILE": "default"})
    is_wrong(is_signed_out, "store blob list", "not signed in to Azure", "login")


# -- words


def test_words_that_mean_nothing(doctor: DoctorSetup) -> None:
    assert "checks nothing" in doctor.home.gofer("doctor", "aws", status=2).err
    assert "there is no target `nope`" in doctor.home.gofer("doctor", "azure", "nope", status=2).err
    assert "is of the kind `local`" in doctor.home.gofer("doctor", "azure", "local", status=1).err
