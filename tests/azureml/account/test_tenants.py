"""Two tenants in one project: each target uses the login of its own profile, in the same process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from azureml.account.programs import Program, install_az
from home import Home, until
from services.azure import Azure
from services.azure import azure as azure

from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE, workspace_id
from simulators.azure.tokens import TENANT

pytestmark = [pytest.mark.xdist_group("azure-tenants"), pytest.mark.timeout(900)]

THEIR_TENANT = "33333333-3333-3333-3333-333333333333"
THEIR_SUBSCRIPTION = "00000000-0000-0000-0000-000000000002"
THEIR_WORKSPACE = workspace_id(THEIR_SUBSCRIPTION, "their-group", "their-ws")
STORAGE = "https://storage.azure.com"
PRINCIPAL = ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID")
YAML = """
target: ours
targets:
  ours: {{kind: azureml, subscription_id: "{ours}", resource_group: {group}, workspace: {workspace},
          compute: cpu-cluster, image: "ubuntu:22.04", store: blob, profile: company}}
  theirs: {{kind: azureml, subscription_id: "{theirs}", resource_group: their-group, workspace: their-ws,
          compute: their-cluster, image: "ubuntu:22.04", store: blob, profile: customer}}
stores:
  blob: {{url: az://{container}/me, account: {account}, endpoint: "{endpoint}", key: "${{env:DUMMY_KEY}}"}}
"""


class TwoTenants:
    """A person who is signed in to both tenants, and has a target in each."""

    def __init__(self, home: Home, azure: Azure, tmp_path: Path) -> None:
        self.home, self.azure = home, azure
        body = {"subscription": THEIR_SUBSCRIPTION, "group": "their-group", "name": "their-ws"}
        computes = [{"name": "their-cluster", "nodes": 2}]
        azure.admin("POST", "/workspaces", {**body, "tenant": THEIR_TENANT, "computes": computes})
        home.environ |= {name: value for name, value in azure.env().items() if name not in PRINCIPAL}
        home.environ["DUMMY_KEY"] = azure.account().key
        self.container = azure.container()
        self.az = self._az(tmp_path / "bin")
        self.write()
        for profile, tenant in (("company", TENANT), ("customer", THEIR_TENANT)):
            home.gofer("login", "--profile", profile, "--tenant", tenant)

    def _az(self, folder: Path) -> Program:
        tokens = {
            f"{tenant} {resource}": self.azure.token(resource, tenant)
            for tenant in (TENANT, THEIR_TENANT)
            for resource in (self.azure.base, STORAGE)
        }
        return install_az(folder, tokens=tokens, token="dummy-token-of-nobody")

    def write(self, *changes: tuple[str, str], more: str = "") -> None:
        """The settings, changed in places."""
        account = self.azure.account()
        text = YAML.format(
            ours=SUBSCRIPTION,
            theirs=THEIR_SUBSCRIPTION,
            group=GROUP,
            workspace=WORKSPACE,
            container=self.container,
            account=account.name,
            endpoint=account.endpoint,
        )
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.home.configure(text + more)

    def submit(self, target: str, *words: str) -> str:
        return self.home.gofer("-c", target, "submit", "-Q", "--no-code", *words).out.strip()

    def states(self) -> dict[str, str]:
        """Of all runs, by target."""
        rows = json.loads(self.home.gofer("list", "runs", "--json").out)
        return {row["target"]: row["state"] for row in rows}

    def lose_tokens(self) -> None:
        """As an hour later."""
        for path in (self.home.queue_home / "azure" / "tokens").glob("*.json"):
            path.unlink()

    def folders(self) -> set[tuple[str, str]]:
        """The profiles and the scopes of token requests since the last call of this method."""
        asked = [call for call in self.az.calls if "get-access-token" in call["words"]]
        Path(f"{self.az.state_file}.calls").write_text("")
        return {
            (Path(one["folder"]).name, one["words"][one["words"].index("--resource") + 1]) for one in asked
        }

    def python(self, code: str) -> Any:
        """Code in one process, and what it prints as JSON at its end."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.home.folder,
            env=self.home.environ,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def tenants(home: Home, azure: Azure, tmp_path: Path) -> TwoTenants:
    return TwoTenants(home, azure, tmp_path)


def test_runs_of_two_tenants_side_by_side(tenants: TwoTenants) -> None:
    tenants.folders()
    ours, theirs = tenants.submit("ours", "echo", "of ours"), tenants.submit("theirs", "echo", "of theirs")
    assert tenants.azure.job(ours)["workspace"] == tenants.azure.workspace
    assert tenants.azure.job(theirs)["workspace"] == THEIR_WORKSPACE
    assert tenants.folders() == {("company", tenants.azure.base), ("customer", tenants.azure.base)}
    assert {one["state"] for one in tenants.home.wait(ours, theirs)} == {"succeeded"}
    assert tenants.states() == {"ours": "succeeded", "theirs": "succeeded"}
    shown = tenants.home.gofer("q", ours, theirs).out
    assert "of ours" in shown
    assert "of theirs" in shown
    # Each command found the tokens of both, and asked nobody again.
    assert tenants.folders() == set()


def test_without_a_login_in_one_tenant_the_other_tenant_works(tenants: TwoTenants) -> None:
    tenants.azure.admin("POST", "/hold", {"held": True})
    try:
        ours, theirs = tenants.submit("ours", "true"), tenants.submit("theirs", "true")
        until(lambda: tenants.states() == {"ours": "queued", "theirs": "queued"}, "both are queued")
        tenants.home.gofer("logout", "--profile", "customer")
    finally:
        tenants.azure.admin("POST", "/hold", {"held": False})
    tenants.azure.wait(theirs)
    until(lambda: tenants.states() == {"ours": "succeeded", "theirs": "queued"}, "ours has ended")
    for words in (("list", "runs"), ("q", theirs)):
        message = tenants.home.gofer(*words).err
        assert "`theirs` cannot be asked: not signed in to Azure in the profile `customer`" in message
        assert "hint: `gofer login --profile customer`" in message
    refused = tenants.home.gofer("-c", "theirs", "submit", "--no-code", "true", status=1)
    assert "`gofer login --profile customer`" in refused.err
    assert "succeeded" in tenants.home.gofer("q", ours).out
    assert "not signed in to the profile `customer`" in tenants.home.gofer("-c", "theirs", "logout").err
    tenants.home.gofer("-c", "theirs", "login", "--tenant", THEIR_TENANT)
    assert tenants.home.wait(theirs)[0]["state"] == "succeeded"


ONE_PROCESS = """
import json, os, threading
from gofer.ops.session import Session
before, found = dict(os.environ), {}
with Session() as session:
    backends = {name: session.backend(name) for name in ("ours", "theirs")}
def ask(name):
    for _ in range(5):
        found.setdefault(name, set()).add(backends[name].job(JOB) is not None)
threads = [threading.Thread(target=ask, args=(name,)) for name in backends for _ in range(3)]
for one in threads: one.start()
for one in threads: one.join()
assert os.environ == before
print(json.dumps({name: sorted(seen) for name, seen in found.items()}))
"""


def test_threads_of_one_process_do_not_mix_them(tenants: TwoTenants) -> None:
    name = f"left{time.time_ns()}"
    tenants.azure.admin("POST", "/jobs", {"name": name, "workspace": THEIR_WORKSPACE})
    tenants.folders()
    code = ONE_PROCESS.replace("JOB", repr(name))
    assert tenants.python(code) == {"ours": [False], "theirs": [True]}
    assert tenants.folders() == {("company", tenants.azure.base), ("customer", tenants.azure.base)}


SHELL = """
import json
from gofer.backends.base import RunRef
from gofer.ops.session import Session
with Session() as session:
    print(json.dumps(session.backend("theirs").shell(RunRef("RUN"), ["cat"], terminal=False)))
"""


def test_a_shell_is_opened_by_the_login_of_its_target(tenants: TwoTenants) -> None:
    """The program that carries it is started by ssh, and nobody is signed in to the profile in use.

    It asks in the target's cloud, and so does `az`.
    """
    key = tenants.home.root / "id_test"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=60)
    more = f'interactive: true, ssh_public_key: "{key}.pub", cloud: usgov, profile: customer'
    tenants.write(("profile: customer", more))
    run = tenants.submit("theirs", "sleep", "600")
    tenants.azure.wait(run, "Running")
    until(lambda: tenants.azure.job(run)["shells"], "the job has a shell")
    argv = tenants.python(SHELL.replace("RUN", run))
    tenants.lose_tokens()
    tenants.folders()
    done = subprocess.run(
        argv, input=b"carried", env=tenants.home.environ, capture_output=True, timeout=100, check=False
    )
    assert done.stdout == b"carried", done.stderr
    assert {call["cloud"] for call in tenants.az.calls} == {"AzureUSGovernment"}
    assert tenants.folders() == {("customer", tenants.azure.base)}
    tenants.home.gofer("abort", run)


def test_a_profile_of_a_target_goes_before_the_choice_and_after_the_variable(tenants: TwoTenants) -> None:
    tenants.home.gofer("account", "use", "customer")
    tenants.folders()
    tenants.home.gofer("-c", "ours", "target", "show", "ours")
    assert tenants.folders() == {("company", tenants.azure.base)}
    forced = {"GOFER_AZURE_PROFILE": "company"}
    wrong = tenants.home.gofer("list", "jobs", "--server", "-c", "theirs", env=forced, status=1)
    assert "Azure refuses the login of the profile `company` for GET" in wrong.err
    assert "hint: `gofer login --profile company`" in wrong.err
    tenants.write((", profile: company", ""))
    wrong = tenants.home.gofer("list", "jobs", "--server", "-c", "ours", status=1)
    assert "the login of the profile `customer`" in wrong.err


def test_a_profile_that_is_not_there(tenants: TwoTenants) -> None:
    tenants.write(("profile: customer", "profile: custmer"))
    done = tenants.home.gofer("-c", "theirs", "submit", "--no-code", "true", status=2)
    assert "the target `theirs` names the Azure profile `custmer`, which does not exist" in done.err
    assert "hint: did you mean `customer`? `gofer login --profile custmer` creates it" in done.err
    assert tenants.submit("ours", "true")
    message = tenants.home.gofer("account", "list").err
    assert "warning: `theirs` would use the profile `custmer`" in message
    tenants.write(("profile: customer", "profile: ../up"))
    assert (
        "gofer.yaml:7: `targets.theirs.profile`" in tenants.home.gofer("target", "show", "ours", status=2).err
    )


def test_no_profile_is_needed_if_the_environment_has_a_login(tenants: TwoTenants) -> None:
    """As in CI, with the files of people who have profiles."""
    tenants.write(("profile: company", "profile: gone"))
    principal = {name: tenants.azure.env()[name] for name in PRINCIPAL}
    tenants.folders()
    assert "cpu-cluster" in tenants.home.gofer("target", "show", "ours", env=principal).out
    message = tenants.home.gofer("account", "list", env=principal).err
    assert message.startswith("service principal ") and message.endswith(
        "takes precedence over all of them\n"
    )
    checks = json.loads(tenants.home.gofer("doctor", "azure", "ours", "--json", env=principal).out)
    assert next(one for one in checks if one["name"] == "login")["detail"].startswith("principal ")
    assert tenants.folders() == set()
    assert "`gone`" in tenants.home.gofer("target", "show", "ours", status=None).err


def test_the_profile_of_each_target(tenants: TwoTenants) -> None:
    tenants.home.gofer("login")
    rows = json.loads(tenants.home.gofer("account", "list", "--json").out)
    assert {row["profile"]: row["targets"] for row in rows} == {
        "default": [],
        "company": ["ours"],
        "customer": ["theirs"],
    }
    tenants.write((", profile: company", ""))
    table = tenants.home.gofer("account").out.splitlines()
    assert [line.split()[0] for line in table if line.endswith(" ours")] == ["default"]
    tenants.home.configure("targets: [")
    done = tenants.home.gofer("account", "list")
    assert "warning: " in done.err
    assert "customer" in done.out


def test_the_doctor_looks_at_each_login(tenants: TwoTenants) -> None:
    def check(*words: str) -> dict[str, dict[str, Any]]:
        done = tenants.home.gofer("doctor", "azure", "--json", *words, status=None)
        return {one["name"]: one for one in json.loads(done.out)}

    found = check()
    assert [one for one in found.values() if one["status"] != "ok"] == []
    assert f"of the tenant {THEIR_TENANT}, by the profile `customer`" in found["login customer"]["detail"]
    assert {"login company", "target ours compute", "target theirs compute"} <= set(found)
    tenants.home.gofer("logout", "--profile", "customer")
    found = check()
    assert found["login customer"]["hint"] == "`gofer login --profile customer`"
    assert "target theirs workspace" not in found
    assert found["target ours compute"]["status"] == "ok"
    assert check("ours")["login"]["status"] == "ok"
    assert check("theirs")["login"]["status"] == "fail"


def test_a_store_by_login_has_a_profile_too(tenants: TwoTenants) -> None:
    """Its own, else the one in use: that of a target is for the service alone."""
    one = tenants.azure.account()
    place = f'url: "az://{tenants.container}/x", account: {one.name}, endpoint: "{one.endpoint}"'
    tenants.write(more=f"  shared: {{{place}, profile: customer}}\n")
    tenants.folders()
    tenants.home.gofer("store", "check", "shared")
    assert tenants.folders() == {("customer", STORAGE)}
    assert "profile customer" in tenants.home.gofer("store", "show", "shared").out
    tenants.home.gofer("logout", "--profile", "customer")
    lost = tenants.home.gofer("store", "check", "shared", status=1)
    assert "not signed in to Azure in the profile `customer`" in lost.out
    assert "`gofer login --profile customer`" in lost.out + lost.err
    tenants.home.gofer("account", "use", "company")
    tenants.write(
        ("store: blob, profile: customer", "store: shared, profile: customer"),
        more=f"  shared: {{{place}}}\n",
    )
    tenants.folders()
    tenants.home.gofer("store", "check", "shared")
    assert tenants.folders() == {("company", STORAGE)}
    tenants.write(more=f"  shared: {{{place}, key: '${{env:DUMMY_KEY}}', profile: customer}}\n")
    done = tenants.home.gofer("store", "list", status=2)
    assert "the store is opened by its `key`, not by a login" in done.err
