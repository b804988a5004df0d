"""Which names look like secrets: the same answer on the submitting side and on the node."""

from __future__ import annotations

import pytest

from gofer.core.secrets.secret_files import looks_like_secret


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "app/.env",
        ".env.local",
        ".ENV",
        ".envrc",
        ".netrc",
        "id_rsa",
        "keys/id_ed25519",
        "id_deploy",
        "server.pem",
        "tls/server.KEY",
        ".aws/config",
        "home/.aws/sso/cache/token.json",
        "credentials",
        "gcp-credentials.json",
        "my credentials.txt",
    ],
)
def test_a_secret(path: str) -> None:
    assert looks_like_secret(path)


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        ".env.local.sample",
        ".env.template",
        ".env.dist",
        "credentials.example",
        "id_rsa.pub",
        "id_map.py",
        "id_map.json",
        "valid_ids",
        "env",
        "environment.yml",
        "src/credentials.py",
        "docs/credentials.md",
        "credentials/readme.txt",
        "keys.py",
        "monkey",
        "aws/config",
        ".env.d/readme",
    ],
)
def test_no_secret(path: str) -> None:
    assert not looks_like_secret(path)
