"""The simulator of Azure Machine Learning with an Azurite of its own, each a child process of the test.

`from services.azure import azure as azure` gives a module its simulator; `azure_sim(folder, …)` another kind.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from services.azurite import API_VERSION, PROGRAM, Account
from services.process import START_TIMEOUT_S, serving
from simulators.azure.certificates import Certificates, make_certificates
from simulators.azure.resources import GROUP, SUBSCRIPTION, WORKSPACE, workspace_id
from simulators.azure.tokens import CLIENT, SECRET, TENANT
from simulators.azure.usage import environment

ENDED = ("Completed", "Failed", "Canceled")
# Seconds between SIGTERM and SIGKILL.
GRACE_S = 5
_VERSION = "2024-04-01"


class Azure:
    """A running simulator: `base` is its ARM and login address, `accounts` are Azurite's."""

    def __init__(
        self,
        folder: Path,
        blobs: str,
        accounts: dict[str, str],
        options: Sequence[str],
        environ: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.environ = dict(environ)
        self.blobs = blobs
        self.keys = accounts
        self.ca = make_certificates(folder).authority
        self.workspace = workspace_id(SUBSCRIPTION, GROUP, WORKSPACE)
        self._options = list(options)
        self._context = ssl.create_default_context(cafile=str(self.ca))
        self._token = ""
        self.port = 0
        self.start()

    def start(self) -> None:
        """On the port it had, if it had one."""
        (self.folder / "sim.json").unlink(missing_ok=True)
        accounts = self.folder / "accounts.json"
        accounts.write_text(json.dumps(self.keys))
        argv = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "simulators.azure"]
        argv += ["--folder", str(self.folder), "--blobs", self.blobs, "--accounts", str(accounts)]
        argv += ["--port", str(self.port), *self._options]
        with open(self.folder / "sim.log", "ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.environ}
            )
        result = self._facts()
        self.base, self.plain, self.admin_token = result["base"], result["plain"], result["admin_token"]
        self.port = int(self.base.rsplit(":", 1)[1])

    def _facts(self) -> dict[str, str]:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self.folder / "sim.json").exists():
            words = (self.folder / "sim.log").read_text()[-3000:]
            assert self.process.poll() is None, f"the simulator did not start: {words}"
            assert time.monotonic() < deadline, f"the simulator is not up: {words}"
            time.sleep(0.05)
        output: dict[str, str] = json.loads((self.folder / "sim.json").read_text())
        return output

    def kill(self) -> None:
        """With SIGKILL: its jobs go on without it, as a service's would."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()

    def env(self) -> dict[str, str]:
        """The variables that point a client, gofer's or the official one, at the simulator."""
        return environment(self.base, str(self.ca))

    def account(self, name: str = "") -> Account:
        """A storage account, by default the workspace's own. Its client needs `env()` to trust it."""
        name = name or next(iter(self.keys))
        return Account(name, self.keys[name], f"{self.blobs}/{name}")

    def blob_client(self, name: str = "") -> BlobServiceClient:
        """The official client of an account, trusting the throw-away authority."""
        one = self.account(name)
        return BlobServiceClient(
            one.endpoint, credential=one.key, api_version=API_VERSION, connection_verify=str(self.ca)
        )

    def container(self, stem: str = "c", account: str = "") -> str:
        """A new, empty container."""
        name = f"{stem}-{os.urandom(6).hex()}"
        self.blob_client(account).create_container(name)
        return name

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        """A request of the admin API: `admin("POST", "/faults", {…})`; AssertionError when refused."""
        status, answer = self.ask(method, f"/_sim{path}", body, token=self.admin_token)
        assert status < 300, f"{method} /_sim{path}: {status} {answer}"
        return answer

    def fault(self, kind: str, path: str = "", **more: Any) -> None:
        """The next matching requests go wrong; see simulators.azure.faults.Fault."""
        self.admin("POST", "/faults", {"kind": kind, "path": path, **more})

    def token(self, resource: str = "https://management.azure.com", tenant: str = TENANT) -> str:
        """A new token by the dummy secret."""
        grant = f"grant_type=client_credentials&client_id={CLIENT}&client_secret={SECRET}"
        form = f"{grant}&scope={resource}/.default"
        request = urllib.request.Request(f"{self.base}/{tenant}/oauth2/v2.0/token", form.encode())
        with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
            found: str = json.load(answer)["access_token"]
            return found

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> tuple[int, Any]:
        """A request with a token (one for ARM unless given; "" for none); the status and what came back.

        A path of ARM that names no `api-version` gets one.
        """
        if path.startswith("/subscriptions/") and "api-version=" not in path:
            path = f"{path}{'&' if '?' in path else '?'}api-version={_VERSION}"
        if token is not None:
            return self._ask(method, path, body, token)
        self._token = self._token or self.token()
        status, answer = self._ask(method, path, body, self._token)
        if status == 401:  # it has ended, or is of a time when the service's clock was wrong
            self._token = self.token()
            status, answer = self._ask(method, path, body, self._token)
        return status, answer

    def _ask(self, method: str, path: str, body: Any, token: str) -> tuple[int, Any]:
        headers = {
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text) if text else None

    def arm(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """A request below the workspace: `arm("GET", "/jobs/x")`."""
        return self.ask(method, f"{self.workspace}{path}", body)

    def job(self, name: str) -> Any:
        """What the simulator knows of a job, more than ARM tells: history, pids, error."""
        return self.admin("GET", f"/jobs/{name}")

    def wait(self, name: str, *statuses: str, timeout_s: float = 180.0) -> Any:
        """The job when it has one of the statuses (an end, unless named); AssertionError if it never has."""
        wanted = statuses or ENDED
        deadline = time.monotonic() + timeout_s
        while (job := self.job(name))["status"] not in wanted:
            assert job["status"] not in ENDED, f"{name} is {job['status']}, not {wanted}: {job['error']}"
            assert time.monotonic() < deadline, f"{name} stays {job['status']}: {job['history']}"
            time.sleep(0.1)
        return job

    def log(self, name: str, file: str = "user_logs/std_log.txt") -> str:
        """A log file of a job, fetched by the link that the run's details give."""
        _, details = self.ask("GET", f"/history/v1.0{self.workspace}/runs/{name}/details")
        assert file in details.get("logFiles", {}), f"{name}: {details}"
        link = details["logFiles"][file]
        with urllib.request.urlopen(link, context=self._context, timeout=60) as answer:
            text: bytes = answer.read()
            return text.decode()


def _azurite(folder: Path, made: Certificates) -> list[str]:
    flags = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--oauth", "basic"]
    where = ["--blobHost", "127.0.0.1", "--blobPort", "{port}", "-l", str(folder / "azurite")]
    return ["node", str(PROGRAM), *flags, *where, "--cert", str(made.chain), "--key", str(made.key)]


@contextmanager
def azure_sim(
    folder: Path,
    *,
    accounts: Sequence[str] = ("dummyone", "dummytwo"),
    options: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Iterator[Azure]:
    """A simulator in `folder` with these storage accounts; `options` go to its command line.

    Its jobs find the PATH of `environ`, where that has one.
    """
    assert PROGRAM.exists(), f"{PROGRAM} is missing: `bash scripts/test-services.sh` installs it"
    folder.mkdir(parents=True, exist_ok=True)
    made = make_certificates(folder)
    keys = {name: base64.b64encode(name.encode() * 8).decode() for name in accounts}
    env = {"AZURITE_ACCOUNTS": ";".join(f"{name}:{key}" for name, key in keys.items())}
    with serving(_azurite(folder, made), log=folder / "azurite.log", env=env) as port:
        habits = ["--grace", str(GRACE_S), "--peer-grace", "3", *options]
        running = Azure(folder, f"https://127.0.0.1:{port}", keys, habits, environ or {})
        try:
            yield running
        finally:
            running.close()


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    with azure_sim(tmp_path_factory.mktemp("azure")) as running:
        yield running
