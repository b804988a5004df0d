"""Azure AD: the login in use opens a store without key or SAS, over TLS only, because it sends a token."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from services.az import install_az
from services.azurite import Azurite, azurite
from services.certificates import Certificates, make_certificates


class Place:
    """An emulator that takes tokens, a folder for programs, and the environment to find both."""

    def __init__(self, running: Azurite, certificates: Certificates, folder: Path) -> None:
        self.azurite = running
        self.folder = folder
        search = os.pathsep.join([str(folder), os.environ["PATH"]])
        # Without these azure-identity looks for a managed identity on the network first.
        fields = {"AZURE_TOKEN_CREDENTIALS": "AzureCliCredential", "HOME": str(folder)}
        self.environ = {**os.environ, **fields, "PATH": search, "SSL_CERT_FILE": str(certificates.authority)}

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Code in a process of its own: what is trusted is read once in each."""
        one = self.azurite.one
        head = f"""
from gofer.storage.open import open_store
from gofer.config.stores import StoreOptions
key = StoreOptions({one.name!r}, {one.key!r}, endpoint={one.endpoint!r})
login = StoreOptions({one.name!r}, endpoint={one.endpoint!r})
"""
        argv = [sys.executable, "-c", head + code]
        return subprocess.run(
            argv, env=self.environ, capture_output=True, text=True, timeout=100, check=False
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("login")
    certificates = make_certificates(folder)
    with azurite(folder / "blobs", certificates) as running:
        yield Place(running, certificates, folder / "bin")


WORK = """
open_store("az://data", key).make()
store = open_store("az://data/me", login)
store.put("a key", b"data")
assert store.get("a key") == b"data"
assert [info.key for info in store.list()] == ["a key"]
import urllib.request
print(urllib.request.urlopen(store.sign("a key", expires_s=600), timeout=60).read().decode())
from gofer.objects import open_objects
print(open_objects(store.node_spec(expires_s=600, write=False)).get("a key").decode())
"""
WITHOUT_IDENTITY = "import sys; sys.modules['azure.identity'] = None\n"


@pytest.mark.parametrize("head", ["", WITHOUT_IDENTITY], ids=["azure-identity", "az"])
def test_a_login_reads_writes_and_signs(place: Place, head: str) -> None:
    token = install_az(place.folder)
    done = place.python(head + WORK)
    assert done.stdout.split() == ["data", "data"], done.stderr
    assert token not in done.stdout + done.stderr


@pytest.mark.parametrize("head", ["", WITHOUT_IDENTITY], ids=["azure-identity", "az"])
def test_nobody_is_signed_in(place: Place, head: str) -> None:
    install_az(place.folder, signed_in=False)
    done = place.python(
        head
        + """
from gofer.errors import CredentialError
try:
    open_store("az://data", login, name="blob").get("k")
except CredentialError as error:
    print(error.message)
    print(error.hint)
"""
    )
    message, hint = done.stdout.splitlines()
    assert message.startswith("the store `blob` (az://data) cannot be opened: it has no `key` or `sas`")
    assert message.endswith("not signed in to Azure")
    assert hint.startswith("`az login`")


def test_a_certificate_nobody_vouches_for(place: Place) -> None:
    place.environ.pop("SSL_CERT_FILE")
    done = place.python("""
from gofer.errors import StoreError
try:
    open_store("az://data", key).get("k")
except StoreError as error:
    print(error.message)
    print(error.hint)
""")
    message, hint = done.stdout.splitlines()
    assert "its certificate is not trusted" in message
    assert "SSL_CERT_FILE" in hint
