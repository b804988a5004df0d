"""The credential of a request to a Kubernetes cluster: a token, a password or a certificate.

A credential comes from the kubeconfig, from a file that is read again when it changes, or from a program
that the kubeconfig names (`exec:`), such as `aws`, `gke-gcloud-auth-plugin` or `kubelogin`. Such a program
takes up to a second, so its output is kept until it expires: in memory, and in a file that only this user can
read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.core import files, private_folder
from gofer.errors import CredentialError
from gofer.objects.client import HttpRequest, Signer
from gofer.objects.wire import Tls, trusted
from gofer.text import parse_time, quote_command

if TYPE_CHECKING:
    from gofer.transport.kubernetes.kubeconfig import ExecPlugin, KubeCluster, KubeContext

_PLUGIN_S = 120.0
# A credential is not used in its last minute, since a request takes time.
_MARGIN_S = 60.0
_TOKEN_FILE_S = 60.0


class Credential(NamedTuple):
    """What a program printed. `expires_at` is None for a credential that is good until it is refused."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires_at: float | None = None

    @property
    def is_good(self) -> bool:
        return self.expires_at is None or time.time() < self.expires_at - _MARGIN_S

    def __repr__(self) -> str:
        return f"Credential(expires_at={self.expires_at})"


class KubeSigner(Signer):
    """Signs requests for one context. Any thread may call. `kept` is a folder for credentials of programs."""

    def __init__(self, context: KubeContext, kept: Path | None = None) -> None:
        self._context = context
        self._kept = kept
        self._lock = threading.Lock()
        self._credential: Credential | None = None
        self._token_read_at = 0.0
        self._tls: Tls | None = None
        self._pair = ("", "")

    def sign(self, request: HttpRequest) -> tuple[str, dict[str, str]]:
        authorization = self._authorization()
        more = {"Authorization": authorization} if authorization else {}
        return request.target, {**request.headers, **more}

    def renew(self) -> bool:
        """Ask the login or the program, or read the token file, again; False for a credential of the
        kubeconfig itself.
        """
        user = self._context.user
        with self._lock:
            if user.fetch_token is not None:
                self._credential = Credential(user.fetch_token(True))
                self._token_read_at = time.monotonic()
                return True
            if user.plugin is not None:
                self._credential = self._from_plugin(user.plugin, is_refused=True)
                return True
            self._token_read_at = 0.0
            return bool(user.token_file)

    def tls(self) -> Tls:
        """The certificates of the cluster to trust, and the certificate of the user, if there is one."""
        cluster, user = self._context.cluster, self._context.user
        found = self._plugin_credential()
        pair = (found.certificate, found.key) if found else (user.certificate, user.key)
        with self._lock:
            if self._tls is None or self._pair != pair:
                context = _context(cluster)
                if pair[0]:
                    _load_pair(context, *pair)
                self._tls, self._pair = Tls(context, cluster.server_name), pair
            return self._tls

    def _authorization(self) -> str:
        user = self._context.user
        credential = self._plugin_credential()
        token = credential.token if credential else self._token()
        if token:
            return f"Bearer {token}"
        if user.username:
            pair = f"{user.username}:{user.password}".encode()
            return "Basic " + base64.b64encode(pair).decode()
        return ""

    def _token(self) -> str:
        """The token of the kubeconfig, of its token file or of gofer's own login. A cluster changes the token
        of a pod every hour.
        """
        user = self._context.user
        if not user.token_file and user.fetch_token is None:
            return user.token
        with self._lock:
            now = time.monotonic()
            if self._credential is None or now - self._token_read_at > _TOKEN_FILE_S:
                fetch = user.fetch_token
                self._credential = Credential(fetch(False) if fetch else _read_token(user.token_file))
                self._token_read_at = now
            return self._credential.token

    def _plugin_credential(self) -> Credential | None:
        plugin = self._context.user.plugin
        if plugin is None or self._context.user.fetch_token is not None:
            return None
        with self._lock:
            if self._credential is None or not self._credential.is_good:
                self._credential = self._from_plugin(plugin, is_refused=False)
            return self._credential

    def _from_plugin(self, plugin: ExecPlugin, *, is_refused: bool) -> Credential:
        path = self._kept / f"{_mark(plugin)}.json" if self._kept else None
        if path is not None and not is_refused and (kept := _read_kept(path)) is not None:
            return kept
        found = run_plugin(plugin, self._context.cluster)
        if path is not None and found.expires_at is not None:
            private_folder.make(str(path.parent))
            files.write_whole(str(path), json.dumps(found._asdict()).encode(), mode=0o600)
        return found


def run_plugin(plugin: ExecPlugin, cluster: KubeCluster) -> Credential:
    """Run the program and read the credential that it prints. Blocks, and may ask on the terminal.

    Raises CredentialError when the program is missing, fails, or prints something else.
    """
    may_ask = plugin.interactive != "Never" and sys.stdin is not None and sys.stdin.isatty()
    shown = quote_command([os.path.basename(plugin.command), *plugin.args])
    if plugin.interactive == "Always" and not may_ask:
        raise CredentialError(f"`{shown}` asks for a login", hint="run the command on a terminal")
    spec: dict[str, Any] = {"interactive": may_ask}
    if plugin.wants_cluster:
        spec["cluster"] = _cluster_info(cluster)
    question = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    env = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": json.dumps(question)}
    try:
        done = subprocess.run(
            [plugin.command, *plugin.args],
            stdin=None if may_ask else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if may_ask else subprocess.PIPE,
            env=env,
            timeout=None if may_ask else _PLUGIN_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise CredentialError(
            f"there is no program `{plugin.command}`, which {plugin.file} asks for a credential",
            hint=plugin.install_hint or "install it, or correct `exec:` of the user there",
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CredentialError(f"`{shown}` cannot be run: {error}", hint="run it by hand") from error
    if done.returncode:
        lines = (done.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        said = f": {lines[-1][:300]}" if lines else ""
        raise CredentialError(f"`{shown}` failed with status {done.returncode}{said}", hint="run it by hand")
    return _parse(done.stdout, shown)


def _parse(output: bytes, shown: str) -> Credential:
    try:
        status = json.loads(output)["status"]
        expires = status.get("expirationTimestamp")
        found = Credential(
            str(status.get("token") or ""),
            str(status.get("clientCertificateData") or ""),
            str(status.get("clientKeyData") or ""),
            parse_time(expires) if expires else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CredentialError(f"`{shown}` prints no credential", hint="run it by hand") from error
    if not found.token and not found.certificate:
        raise CredentialError(f"`{shown}` prints neither a token nor a certificate", hint="run it by hand")
    return found


def _cluster_info(cluster: KubeCluster) -> dict[str, Any]:
    info: dict[str, Any] = {"server": cluster.server, "insecure-skip-tls-verify": cluster.skips_verification}
    if cluster.ca:
        info["certificate-authority-data"] = base64.b64encode(cluster.ca.encode()).decode()
    if cluster.server_name:
        info["tls-server-name"] = cluster.server_name
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    return info


def _mark(plugin: ExecPlugin) -> str:
    """Equal only for the same program with the same arguments and variables, named by the same file."""
    return hashlib.sha256(repr(plugin).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read_kept(path: Path) -> Credential | None:
    found = files.read_json(str(path))
    if found is None:
        return None
    try:
        kept = Credential(**found)
        return kept if kept.is_good else None
    except TypeError:
        return None


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise CredentialError(
            f"cannot read the token file {path}: {error.strerror}",
            hint="correct `tokenFile` in the kubeconfig",
        ) from error


def _context(cluster: KubeCluster) -> ssl.SSLContext:
    if cluster.skips_verification:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    # A context that gets a certificate of the user must not be shared with other servers.
    return ssl.create_default_context(cadata=cluster.ca) if cluster.ca else _copy_of_trusted()


def _copy_of_trusted() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for certificate in trusted().get_ca_certs(binary_form=True):
        context.load_verify_locations(cadata=certificate)
    return context


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Python reads certificates from files only; the files exist for this moment, readable by this user."""
    with tempfile.TemporaryDirectory(prefix="gofer-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_text(f"{certificate}\n{key}\n")
        try:
            context.load_cert_chain(pair)
        except ssl.SSLError as error:
            raise CredentialError(
                f"the client certificate cannot be used: {error.reason}", hint="`kubectl config view --raw`"
            ) from error
