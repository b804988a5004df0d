"""Which storage accounts there are, and opening their containers by the credentials a datastore holds."""

from __future__ import annotations

import binascii
import ssl
import time
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from simulators.azure.blobs import BlobError, Container
from simulators.azure.clock import Clock
from simulators.azure.messages import Json
from simulators.azure.sas import account_sas, service_sas
from simulators.azure.tokens import Tokens

_LENT_S = 24 * 3600.0


@dataclass(frozen=True)
class Storage:
    """`endpoint` is Azurite's address; accounts are the first words of its paths."""

    endpoint: str
    accounts: dict[str, str]
    authority: str
    tokens: Tokens
    clock: Clock
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)

    def own(self, account: str, container: str) -> Container:
        """By the account's key: for what the service itself keeps there."""
        sas = account_sas(account, self._key(account), "rwdlacup", time.time() + _LENT_S)
        return self._container(account, container, sas=sas)

    def by_datastore(self, datastore: Json, who: str) -> Container:
        """By what the datastore holds: a key, a SAS, or the identity `who` when none. BlobError otherwise."""
        properties = datastore["properties"]
        account, container = properties.get("accountName", ""), properties.get("containerName", "")
        credentials = properties.get("credentials") or {}
        secrets = credentials.get("secrets") or {}
        self._key(account)
        kind = credentials.get("credentialsType", "None")
        if kind == "AccountKey":
            try:
                sas = account_sas(account, secrets.get("key", ""), "rwdlacup", time.time() + _LENT_S)
            except binascii.Error:
                raise BlobError(403, "AuthenticationFailed", f"the key of {account}") from None
            return self._container(account, container, sas=sas)
        if kind == "Sas":
            return self._container(account, container, sas=str(secrets.get("sasToken", "")))
        token, _ = self.tokens.mint("https://storage.azure.com", who)
        return self._container(account, container, bearer=token)

    def by_url(self, url: str, who: str) -> tuple[Container, str]:
        """A container and the path in it, of a blob's address: by the SAS in it, else by identity."""
        parts = urlsplit(url)
        words = unquote(parts.path).strip("/").split("/")
        host = (parts.hostname or "").split(".")
        account = host[0] if len(host) > 1 and host[1] == "blob" else words.pop(0)
        self._key(account)
        if parts.query:
            return self._container(account, words[0], sas=parts.query), "/".join(words[1:])
        token, _ = self.tokens.mint("https://storage.azure.com", who)
        return self._container(account, words[0], bearer=token), "/".join(words[1:])

    def link(self, account: str, container: str, blob: str, permissions: str = "r") -> str:
        """A blob's address with a SAS of an hour, by the service's own clock."""
        ends = self.clock.now() + 3600
        sas = service_sas(account, self._key(account), permissions, ends, container, blob)
        return f"{self.endpoint}/{account}/{container}/{quote(blob)}?{sas}"

    def product_endpoint(self, account: str) -> str:
        """The account's address in the form that the real service's have, which Azurite takes too."""
        return f"https://{account}.blob.core.localhost:{urlsplit(self.endpoint).port}"

    def container_sas(self, account: str, container: str, permissions: str, hours: float = 1.0) -> str:
        return service_sas(account, self._key(account), permissions, time.time() + hours * 3600, container)

    def _key(self, account: str) -> str:
        key = self.accounts.get(account)
        if key is None:
            raise BlobError(404, "AccountNotFound", f"storage account {account}")
        return key

    def _container(self, account: str, container: str, *, sas: str = "", bearer: str = "") -> Container:
        endpoint = f"{self.endpoint}/{account}"
        return Container(endpoint, container, self.context, sas=sas, bearer=bearer)


def trusting(authority: str) -> ssl.SSLContext:
    """A TLS context that trusts this authority and no other."""
    return ssl.create_default_context(cafile=authority) if authority else ssl.create_default_context()
