"""Azurite, the emulator of Azure Blob Storage, with two accounts.

Keep it under some 5,000 blobs, since its lookups scan the account; hence one for each test module.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ContainerSasPermissions,
    ResourceTypes,
    generate_account_sas,
    generate_container_sas,
)

from services.certificates import Certificates
from services.process import serving

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".test-services/node_modules/azurite/dist/src/blob/main.js"
# The newest version of the service that Azurite 3.35 knows; newer SAS forms do not verify there.
API_VERSION = "2025-11-05"


class Account(NamedTuple):
    """A storage account of the emulator. The key opens nothing but the emulator of one test."""

    name: str
    key: str
    endpoint: str

    def client(self) -> BlobServiceClient:
        """The official SDK: a client that is not ours."""
        return BlobServiceClient(self.endpoint, credential=self.key, api_version=API_VERSION)

    def new_container(self, stem: str = "c") -> str:
        """An empty container with a name nobody else has."""
        name = f"{stem}-{uuid4().hex[:12]}"
        self.client().create_container(name)
        return name

    def account_sas(self, permissions: str = "rwdlacup", *, hours: float = 1.0) -> str:
        """A SAS for the whole account; negative hours make one that has expired."""
        return generate_account_sas(
            self.name,
            self.key,
            ResourceTypes(service=True, container=True, object=True),
            AccountSasPermissions.from_string(permissions),  # type: ignore[no-untyped-call]
            datetime.now(UTC) + timedelta(hours=hours),
            start=datetime.now(UTC) - timedelta(hours=48),
        )

    def container_sas(self, container: str, permissions: str = "rwdl", *, hours: float = 1.0) -> str:
        """A SAS for one container."""
        return generate_container_sas(
            self.name,
            container,
            self.key,
            permission=ContainerSasPermissions.from_string(permissions),
            expiry=datetime.now(UTC) + timedelta(hours=hours),
            start=datetime.now(UTC) - timedelta(hours=48),
        )


class Azurite(NamedTuple):
    """A running emulator: `one` and `two` are accounts that know nothing of each other."""

    port: int
    one: Account
    two: Account


@contextmanager
def azurite(folder: Path, certificates: Certificates | None = None) -> Iterator[Azurite]:
    """An emulator that keeps its blobs in `folder`; AssertionError when it cannot start.

    With certificates it speaks TLS, and takes tokens of Azure AD too.
    """
    assert PROGRAM.exists(), f"{PROGRAM} is missing: `bash scripts/test-services.sh` installs it"
    keys = {name: base64.b64encode(name.encode() * 8).decode() for name in ("dummyone", "dummytwo")}
    argv = ["node", str(PROGRAM), "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    argv += ["--blobHost", "127.0.0.1", "--blobPort", "{port}", "-l", str(folder)]
    if certificates:
        argv += ["--oauth", "basic", "--cert", str(certificates.chain), "--key", str(certificates.key)]
    scheme = "https" if certificates else "http"
    env = {"AZURITE_ACCOUNTS": ";".join(f"{name}:{key}" for name, key in keys.items())}
    folder.mkdir(parents=True, exist_ok=True)
    with serving(argv, log=folder / "azurite.log", env=env) as port:
        accounts = [Account(name, key, f"{scheme}://127.0.0.1:{port}/{name}") for name, key in keys.items()]
        yield Azurite(port, *accounts)
