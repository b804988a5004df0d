"""kubeconfig files are merged and read as kubectl does, and what is wrong with one is named."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from gofer.errors import CheckFailed, UnknownName
from gofer.transport.kubernetes.kubeconfig import KubeContext, load


def write(path: Path, document: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def config(
    *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, current: str = "lab"
) -> dict[str, Any]:
    return {
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "https://k.example:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": "dummy-token"}}],
        "contexts": [
            {"name": "lab", "context": {"cluster": "c", "user": "u", "namespace": "research"}},
            {"name": "anonymous", "context": {"cluster": "c"}},
        ],
    }


def read(folder: Path, document: dict[str, Any], **values: str) -> KubeContext:
    return load(file=str(write(folder / "config", document)), environ={}, **values)


def test_the_current_context_has_its_server_user_and_namespace(tmp_path: Path) -> None:
    found = read(tmp_path, config())
    assert (found.name, found.namespace) == ("lab", "research")
    assert (found.cluster.server, found.user.token) == ("https://k.example:6443", "dummy-token")
    other = read(tmp_path, config(), context="anonymous")
    assert (other.namespace, other.user.token) == ("default", "")
    assert "dummy-token" not in repr(found)


def test_the_files_of_kubeconfig_are_merged_and_the_first_value_wins(tmp_path: Path) -> None:
    first = write(
        tmp_path / "a", {"current-context": "new", "users": [{"name": "u", "user": {"token": "1"}}]}
    )
    second = write(tmp_path / "b", config(user={"token": "2"}))
    third = write(tmp_path / "c", {"contexts": [{"name": "new", "context": {"cluster": "c", "user": "u"}}]})
    listed = f"{first}:{tmp_path / 'missing'}::{second}:{third}"
    found = load(environ={"KUBECONFIG": listed})
    assert (found.name, found.user.token, found.cluster.server) == ("new", "1", "https://k.example:6443")


def test_without_kubeconfig_the_file_of_the_home_counts(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", config())
    assert load(environ={"HOME": str(tmp_path)}).name == "lab"


def test_paths_are_relative_to_the_folder_of_their_file(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "ca.pem").write_text("CA\n")
    (folder / "me.pem").write_text("CERTIFICATE\n")
    user = {
        "client-certificate": "keys/me.pem",
        "client-key-data": base64.b64encode(b"KEY\n").decode(),
        "tokenFile": "keys/token",
        "token": "ignored",
        "as": "alice",
        "as-groups": ["dev", "ops"],
        "as-user-extra": {"reason": ["test"]},
        "exec": {"command": "bin/login", "args": ["--for", 3], "env": [{"name": "A", "value": "b"}]},
    }
    cluster = {
        "certificate-authority": "keys/ca.pem",
        "tls-server-name": "other",
        "proxy-url": "http://p:3128",
    }
    found = read(tmp_path, config(user=user, cluster=cluster))
    assert (found.cluster.ca, found.cluster.server_name) == ("CA\n", "other")
    assert found.cluster.proxy_url == "http://p:3128"
    assert (found.user.certificate, found.user.key, found.user.token) == ("CERTIFICATE\n", "KEY\n", "")
    assert found.user.token_file == str(folder / "token")
    assert found.user.impersonation == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-reason", "test"),
    )
    plugin = found.user.plugin
    assert plugin is not None
    assert (plugin.command, plugin.args) == (str(tmp_path / "bin" / "login"), ("--for", "3"))
    assert (plugin.env, plugin.interactive) == ((("A", "b"),), "IfAvailable")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "has no current context"),
        (config(current="lob"), "has no context `lob`"),
        (config(cluster={"server": "k.example:6443"}), "`server: k.example:6443` is no address"),
        (config(user={"auth-provider": {"name": "gcp"}}), "`auth-provider` was removed"),
        (config(cluster={"certificate-authority": "no.pem"}), "cannot read `certificate-authority`"),
        (config(user={"client-key-data": "ü"}), "`client-key` is not PEM"),
        ({"clusters": "none", "current-context": "x"}, "`clusters` is not a list"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path: Path, document: dict[str, Any], words: str) -> None:
    with pytest.raises((CheckFailed, UnknownName)) as caught:
        read(tmp_path, document)
    assert words in caught.value.message
    assert str(tmp_path / "config") in caught.value.message
    assert caught.value.hint


def test_text_that_is_no_yaml_and_a_missing_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a: [")
    with pytest.raises(CheckFailed, match="is not valid YAML"):
        load(file=str(tmp_path / "config"), environ={})
    with pytest.raises(CheckFailed, match="there is no kubeconfig") as caught:
        load(environ={"HOME": str(tmp_path / "nobody")})
    assert "KUBECONFIG" in (caught.value.hint or "")


def test_a_mistyped_context_gets_a_proposal(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        read(tmp_path, config(), context="labb")
    assert "`lab`" in (caught.value.hint or "")
