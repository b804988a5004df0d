"""Reads kubeconfig files as kubectl does: the server, its certificates, and the user.

`KUBECONFIG` is a list of files that are merged; the first file that sets a value wins, and files that do not
exist are skipped. Without it, ~/.kube/config counts. In a pod without any file, the service account of the
pod is used. Paths in a file are relative to the folder of that file.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gofer.errors import CheckFailed, UnknownName
from gofer.text import did_you_mean

# Where a pod finds its service account.
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_IN_CLUSTER = "in-cluster"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ExecPlugin(NamedTuple):
    """The program that prints a credential. `file` is the kubeconfig that names it.

    `interactive` is Never, IfAvailable or Always: whether the program may or must ask on a terminal.
    """

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    api_version: str
    interactive: str
    wants_cluster: bool
    install_hint: str
    file: str


class KubeCluster(NamedTuple):
    """A server and how to trust it. `ca` is PEM text; empty for the certificates that the system trusts."""

    server: str
    ca: str = ""
    skips_verification: bool = False
    server_name: str = ""
    proxy_url: str = ""


FetchToken = Callable[[bool], str]


class KubeUser(NamedTuple):
    """The user of a context. A token file is read again when it changes.

    `certificate` and `key` are PEM text. `impersonation` are headers that make the request in the name of
    somebody else. `fetch_token` is a login of gofer, and wins over everything else; its argument says that
    the token before was refused.
    """

    token: str = ""
    token_file: str = ""
    certificate: str = ""
    key: str = ""
    username: str = ""
    password: str = ""
    impersonation: tuple[tuple[str, str], ...] = ()
    plugin: ExecPlugin | None = None
    fetch_token: FetchToken | None = None

    def __repr__(self) -> str:
        return "KubeUser(…)"  # a traceback shows no secret


class KubeContext(NamedTuple):
    """A cluster, a user of it, and the namespace for what names none."""

    name: str
    cluster: KubeCluster
    user: KubeUser
    namespace: str = "default"


def load(*, context: str = "", file: str = "", environ: Mapping[str, str] = os.environ) -> KubeContext:
    """The context with that name, or the current one. `file` replaces KUBECONFIG.

    Raises CheckFailed for a file that cannot be used, UnknownName for a context that no file has.
    """
    paths = _paths(file, environ)
    config = _merged([(path, _document(path)) for path in paths if path.exists()])
    if not config.files:
        if not context and (inside := _in_cluster(environ)) is not None:
            return inside
        shown = ", ".join(map(str, paths))
        raise CheckFailed(
            f"there is no kubeconfig: {shown}", hint="set `kubeconfig:` in the target, or KUBECONFIG"
        )
    name = context or config.current
    if not name:
        raise CheckFailed(
            f"{config.files[0]} has no current context",
            hint="set `context:` in the target, or `kubectl config use-context NAME`",
        )
    return _context(config, name)


def list_contexts(*, file: str = "", environ: Mapping[str, str] = os.environ) -> tuple[list[str], str]:
    """The names of all contexts, and the current one; "" for none. Both are empty without a kubeconfig.

    Raises CheckFailed for a file that cannot be used.
    """
    config = _merged([(path, _document(path)) for path in _paths(file, environ) if path.exists()])
    return list(config.contexts), config.current


def parse(text: bytes, where: Path) -> KubeContext:
    """The current context of one kubeconfig; CheckFailed when it has none or cannot be used.

    `where` is the place that messages name, and the folder that paths in the text are relative to.
    """
    config = _merged([(where, _mapping(_parsed(text, where), where))])
    if not config.current:
        raise CheckFailed(f"{where} has no current context", hint="`kubectl config view` shows a valid one")
    return _context(config, config.current)


class _Config(NamedTuple):
    """The merged files. Each entry keeps the file that it comes from."""

    files: list[Path]
    current: str
    clusters: dict[str, tuple[dict[str, Any], Path]]
    users: dict[str, tuple[dict[str, Any], Path]]
    contexts: dict[str, tuple[dict[str, Any], Path]]


def _paths(file: str, environ: Mapping[str, str]) -> list[Path]:
    if file:
        return [Path(file).expanduser()]
    named = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return [Path(part) for part in named] or [
        Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    ]


def _merged(documents: Sequence[tuple[Path, dict[str, Any]]]) -> _Config:
    found = _Config([path for path, _ in documents], "", {}, {}, {})
    current = ""
    for path, document in documents:
        current = current or _text(document.get("current-context"))
        for kind, into in (("cluster", found.clusters), ("user", found.users), ("context", found.contexts)):
            for entry in _entries(document, f"{kind}s", path):
                into.setdefault(_text(entry.get("name")), (_mapping(entry.get(kind), path), path))
    return found._replace(current=current)


def _document(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise CheckFailed(f"cannot read {path}: {error.strerror}", hint="correct its permissions") from error
    return _mapping(_parsed(text, path), path)


def _parsed(text: bytes, path: Path) -> object:
    try:
        found: object = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = str(error).splitlines()[0]
        raise CheckFailed(f"{path} is not valid YAML: {problem}", hint="`kubectl config view`") from error
    return found


def _entries(document: Mapping[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    listed = document.get(key) or []
    if not isinstance(listed, list):
        raise CheckFailed(f"{path}: `{key}` is not a list", hint="`kubectl config view`")
    return [_mapping(entry, path) for entry in listed]


def _mapping(value: object, path: Path) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CheckFailed(f"{path} is not a kubeconfig", hint="`kubectl config view` shows a valid one")
    return {str(key): held for key, held in value.items()}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _context(config: _Config, name: str) -> KubeContext:
    context, path = _named(config.contexts, name, "context", config.files[0])
    cluster, cluster_file = _named(config.clusters, _text(context.get("cluster")), "cluster", path)
    user_name = _text(context.get("user"))
    user, user_file = _named(config.users, user_name, "user", path) if user_name else ({}, path)
    return KubeContext(
        name,
        _cluster(cluster, cluster_file),
        _user(user, user_file),
        _text(context.get("namespace")) or "default",
    )


def _named(
    entries: Mapping[str, tuple[dict[str, Any], Path]], name: str, kind: str, file: Path
) -> tuple[dict[str, Any], Path]:
    if name not in entries:
        hint = did_you_mean(name, entries) or f"`kubectl config get-{kind}s` lists them"
        raise UnknownName(f"{file} has no {kind} `{name}`", hint=hint)
    return entries[name]


def _cluster(entry: Mapping[str, Any], file: Path) -> KubeCluster:
    server = _text(entry.get("server")).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise CheckFailed(
            f"{file}: `server: {server}` is no address", hint="it begins with https://; `kubectl config view`"
        )
    return KubeCluster(
        server,
        _pem(entry, "certificate-authority", file),
        bool(entry.get("insecure-skip-tls-verify")),
        _text(entry.get("tls-server-name")),
        _text(entry.get("proxy-url")),
    )


def _user(entry: Mapping[str, Any], file: Path) -> KubeUser:
    if "auth-provider" in entry:
        raise CheckFailed(
            f"{file}: `auth-provider` was removed from Kubernetes in 1.26",
            hint="write `exec:` in its place; for Azure, `kubelogin convert-kubeconfig` does",
        )
    # A token file wins over a token, as in kubectl.
    token_file = _path(entry.get("tokenFile"), file)
    return KubeUser(
        token="" if token_file else _text(entry.get("token")),
        token_file=token_file,
        certificate=_pem(entry, "client-certificate", file),
        key=_pem(entry, "client-key", file),
        username=_text(entry.get("username")),
        password=_text(entry.get("password")),
        impersonation=_impersonation(entry),
        plugin=_plugin(_mapping(entry.get("exec"), file), file),
    )


def _impersonation(entry: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = [("Impersonate-User", _text(entry.get("as"))), ("Impersonate-Uid", _text(entry.get("as-uid")))]
    found += [("Impersonate-Group", _text(group)) for group in entry.get("as-groups") or ()]
    for key, values in (entry.get("as-user-extra") or {}).items():
        found += [(f"Impersonate-Extra-{key}", _text(value)) for value in values]
    return tuple((name, value) for name, value in found if value)


def _plugin(entry: Mapping[str, Any], file: Path) -> ExecPlugin | None:
    command = _text(entry.get("command"))
    if not command:
        return None
    env = [(_text(one.get("name")), _text(one.get("value"))) for one in entry.get("env") or ()]
    return ExecPlugin(
        # A command with a separator is relative to its file, any other is looked for in PATH.
        _path(command, file) if os.sep in command else command,
        tuple(map(_text, entry.get("args") or ())),
        tuple(env),
        _text(entry.get("apiVersion")) or "client.authentication.k8s.io/v1",
        _text(entry.get("interactiveMode")) or "IfAvailable",
        bool(entry.get("provideClusterInfo")),
        _text(entry.get("installHint")).strip(),
        str(file),
    )


def _path(value: object, file: Path) -> str:
    text = _text(value)
    return str(file.parent / Path(text).expanduser()) if text else ""


def _pem(entry: Mapping[str, Any], key: str, file: Path) -> str:
    """The text of `KEY-data`, or of the file that KEY names."""
    encoded = _text(entry.get(f"{key}-data"))
    try:
        if encoded:
            return base64.b64decode(encoded, validate=False).decode("ascii")
        path = _path(entry.get(key), file)
        return Path(path).read_text("ascii") if path else ""
    except OSError as error:
        raise CheckFailed(
            f"{file}: cannot read `{key}` {error.filename}: {error.strerror}", hint="`kubectl config view`"
        ) from error
    except ValueError as error:  # also of text that is not base64 or not ASCII
        raise CheckFailed(f"{file}: `{key}` is not PEM", hint="`kubectl config view --raw`") from error


def _in_cluster(environ: Mapping[str, str]) -> KubeContext | None:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token, ca = _ACCOUNT / "token", _ACCOUNT / "ca.crt"
    if not host or not port or not token.exists():
        return None
    host = f"[{host}]" if ":" in host else host
    namespace = _ACCOUNT / "namespace"
    return KubeContext(
        _IN_CLUSTER,
        KubeCluster(f"https://{host}:{port}", ca.read_text("ascii") if ca.exists() else ""),
        KubeUser(token_file=str(token)),
        namespace.read_text().strip() if namespace.exists() else "default",
    )
