"""`az://container/prefix`: Azure Blob Storage, opened by an account key, a SAS, or a login to Azure AD.

A login gives tokens, signatures made with them, and the addresses of its cloud.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from gofer.config.paths import Paths
from gofer.config.redact import remember
from gofer.core.store_spec import IdentitySpec, StoreSpec
from gofer.errors import CredentialError, KeyNotFound
from gofer.objects import open_azure
from gofer.objects.azure_auth import VERSION, Bearer, Sas, SasTerms, SharedKey, make_sas, signature, utc
from gofer.objects.client import Client, HttpRequest, Signer
from gofer.objects.names import azure_name, in_query
from gofer.objects.wire import HttpResponse
from gofer.storage.base import Store, no_such_key
from gofer.storage.cloud import CloudStore
from gofer.storage.credentials import (
    OpenedStore,
    azure_account,
    azure_endpoint,
    check_key,
    read_address,
    read_sas,
    sas_facts,
)
from gofer.storage.explain import Circumstances, CopyRefused
from gofer.text import format_duration
from gofer.transport.azure.cloud import find_cloud
from gofer.transport.azure.credential import AzureCredential
from gofer.transport.azure.problems import NobodySignedIn
from gofer.transport.azure.profile import DEFAULT, login_command, name_of

_SCOPE = "https://storage.azure.com/.default"
# The longest time for which the service gives a delegation key.
_DELEGATION_S = 7 * 86400.0

Token = tuple[str, float]

_METHODS = {"GET": "r", "HEAD": "r", "PUT": "cw", "DELETE": "d"}
# A SAS for the source of a copy must remain valid until a very large blob is copied.
_COPY_S = 24 * 3600.0


def default_endpoint(account: str, environ: Mapping[str, str]) -> str:
    """The URL of an account's blob service in the cloud of the login."""
    return f"https://{account}.blob.{find_cloud(environ, _folder(environ)).storage_suffix}"


def _folder(environ: Mapping[str, str]) -> str:
    return str(Paths.from_environment(environ).queue_home / "azure")


def token_source(entry: OpenedStore, environ: Mapping[str, str]) -> Callable[[], Token]:
    """A function that returns a token and its end. It blocks; CredentialError when nobody is signed in."""

    folder = _folder(environ)
    used: list[str] = []

    def fetch() -> Token:
        authority = find_cloud(environ, folder).authority
        credential = AzureCredential(folder, environ, authority=authority, remember=remember)
        try:
            token = credential.token(_SCOPE)
            if token.value in used:  # a second call for the same token means that the service refused it
                credential.forget(_SCOPE)
                token = credential.token(_SCOPE)
        except NobodySignedIn as error:
            raise _nobody(entry, error) from None
        used[:] = [token.value]
        return token

    return fetch


def delegated_sas(client: Client, endpoint_path: str, account: str, terms: SasTerms) -> str:
    """A SAS signed with a delegation key, which the service gives to the user who is signed in. Blocking."""
    # This clock may be ahead: the key starts an hour ago, and the SAS names no start.
    began = time.time() - 3600
    starts, ends = utc(began), utc(min(terms.expires_at, began + _DELEGATION_S))
    lent = _delegation_key(client, endpoint_path, starts, ends)
    place = f"/blob/{account}/{terms.container}" + (f"/{terms.name}" if terms.name else "")
    owner = [lent[name] for name in _KEY_FIELDS]
    # The format between the fields of the key and the version: authorized and unauthorized object id,
    # correlation id, addresses, protocol.
    lines = [terms.permissions, "", ends, place, *owner, "", "", "", "", "", VERSION, terms.resource]
    signed = signature(base64.b64decode(lent["Value"]), [*lines, "", "", "", "", "", "", ""])
    fields = {"sv": VERSION, "se": ends, **terms.scope, "sp": terms.permissions}
    fields.update(zip(("skoid", "sktid", "skt", "ske", "sks", "skv"), owner, strict=True))
    return "&".join(f"{name}={in_query(value)}" for name, value in {**fields, "sig": signed}.items())


_KEY_FIELDS = ("SignedOid", "SignedTid", "SignedStart", "SignedExpiry", "SignedService", "SignedVersion")


def _delegation_key(client: Client, path: str, starts: str, ends: str) -> dict[str, str]:
    body = f"<KeyInfo><Start>{starts}</Start><Expiry>{ends}</Expiry></KeyInfo>".encode()
    query = {"restype": "service", "comp": "userdelegationkey"}
    text = client.call(HttpRequest("POST", path or "/", query, {}, body), HttpResponse.read)
    from xml.etree import ElementTree  # slow to load, and only a login needs it

    return {child.tag: child.text or "" for child in ElementTree.fromstring(text)}


def _nobody(entry: OpenedStore, error: NobodySignedIn) -> CredentialError:
    sign_in = "`az login`" if error.profile == DEFAULT else login_command(error.profile)
    return CredentialError(
        f"the store {entry.label} cannot be opened: it has no `key` or `sas`, and {error.message}",
        hint=f"{sign_in}, or add `sas: ${{secret:NAME}}` or `key: ${{secret:NAME}}` next to its `url`",
    )


class AzureStore(CloudStore):
    """The blobs of one container under a prefix. Opening it does no I/O, except for a private cloud's
    addresses.

    `environ` is the environment of the login (default: that of the process), for a store opened by a login.
    """

    def __init__(self, entry: OpenedStore, environ: Mapping[str, str] | None = None) -> None:
        login_environ = os.environ if environ is None else environ
        self._profile = name_of(login_environ)
        address = read_address(entry.url)
        self._address = address
        self._account = azure_account(entry, address)
        endpoint = azure_endpoint(entry, self._account)
        self._endpoint = endpoint or default_endpoint(self._account, login_environ)
        self._is_hierarchical = entry.options.is_hierarchical
        self._signer = _signer(entry, self._account, login_environ)
        spec: StoreSpec = {"endpoint": self._endpoint, "container": address.container}
        spec["prefix"] = address.prefix
        self._blobs = open_azure(spec, self._signer)
        self._copy_sas: tuple[str, float] | None = None
        super().__init__(entry.url, self._blobs, lambda: self._facts(entry))

    @property
    def blob_place(self) -> tuple[str, str, str, str, str, str, str]:
        """The fields of gofer.backends.kind.BlobPlace, in its order. They hold no secret."""
        address = self._address
        scope = f"/{address.prefix}" if self._is_hierarchical else ""
        terms = sas_facts(self._signer.token).permissions if isinstance(self._signer, Sas) else ""
        return (
            self._account,
            self._endpoint,
            address.container,
            address.prefix,
            scope,
            terms,
            self._signer.mark or self._profile,
        )

    @property
    def sas_expires_at(self) -> float | None:
        """When the SAS of the store ends; None without a SAS, or when the SAS names no end."""
        return sas_facts(self._signer.token).expires_at if isinstance(self._signer, Sas) else None

    def sign(self, key: str, *, expires_s: float, method: str = "GET") -> str:
        """A URL for the object.

        A store opened by a SAS signs with this SAS, with all its permissions and its end.
        """
        with self._explained("read", key):
            url = self._blobs.url(key)
        return f"{url}?{self._token(_METHODS[method], expires_s, self._blobs.name(key))}"

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """Copy from another Azure store, also of another account. False for stores of other kinds."""
        if not isinstance(source, AzureStore):
            return False
        # An error with the source must name the source's store.
        with source._explained("read", source_key):
            url = source.copy_url(source_key, self)
        try:
            with self._explained("write", key):
                self._blobs.copy_from_url(url, key)
        except KeyNotFound:
            if source.head(source_key) is None:
                raise no_such_key(source.url, source_key) from None
            return False  # services give this answer also for a source that they cannot reach
        except CopyRefused:
            return False
        return True

    def copy_url(self, key: str, reader: AzureStore) -> str:
        """The blob's address for a copy by `reader`; signed unless both stores use the key of one account."""
        url = self._blobs.url(key)
        if isinstance(reader._signer, SharedKey) and self._is_beside(reader):
            return url
        # One signature serves many copies: signing with a login costs a request.
        if self._copy_sas is None or self._copy_sas[1] < time.time() + _COPY_S / 2:
            self._copy_sas = (self._token("r", _COPY_S), time.time() + _COPY_S)
        return f"{url}?{self._copy_sas[0]}"

    def node_spec(
        self, prefix: str = "", *, expires_s: float, write: bool, identity: IdentitySpec | None = None
    ) -> StoreSpec:
        """A spec with a SAS that can only read, unless `write`; the store's own SAS where the store has only
        that.

        In an account with a hierarchical namespace the SAS is for the folder alone. Other accounts sign only
        for containers or single blobs: there the SAS opens the container, and only the client keeps to the
        prefix.
        """
        whole = "/".join(part for part in (self._address.prefix, prefix) if part)
        place: StoreSpec = {"kind": "azure", "endpoint": self._endpoint, "container": self._address.container}
        place["prefix"] = whole
        if identity is not None:
            return {**place, "identity": identity}
        terms = "rcwdl" if write else "rl"
        is_folder = self._is_hierarchical and bool(whole)
        token = self._token(
            terms, expires_s, azure_name(whole) if is_folder else "", "d" if is_folder else ""
        )
        return {**place, "sas": token}

    def _is_beside(self, other: AzureStore) -> bool:
        return (self._endpoint, self._account) == (other._endpoint, other._account)

    def _token(self, permissions: str, expires_s: float, name: str = "", resource: str = "") -> str:
        """A SAS for the blob `name`, or for the container without a name; `resource` gives another kind of
        name.
        """
        container = self._address.container
        ends = time.time() + expires_s
        terms = SasTerms(permissions, ends, resource or ("b" if name else "c"), container, name)
        if isinstance(self._signer, SharedKey):
            token = make_sas(self._signer, terms)
        elif isinstance(self._signer, Sas):
            token = self._own_sas(ends)
        else:
            with self._explained("read"):
                path = urlsplit(self._endpoint).path
                token = delegated_sas(self._blobs.client, path, self._account, terms)
        if resource or not name:
            remember(token.rpartition("sig=")[2])
        return token

    def _own_sas(self, until: float) -> str:
        """The store's own SAS; CredentialError when it ends too soon."""
        assert isinstance(self._signer, Sas)
        facts = sas_facts(self._signer.token)
        if facts.expires_at is not None and facts.expires_at < min(until, time.time() + 60):
            raise CredentialError(
                f"the SAS of the store {self.url} has "
                f"{format_duration(max(facts.expires_at - time.time(), 0))} left, too little for a run",
                hint="give the store a newer `sas`, or the account's `key`",
            )
        return self._signer.token

    def _facts(self, entry: OpenedStore) -> Circumstances:
        signer = self._signer
        way = "key" if isinstance(signer, SharedKey) else "sas" if isinstance(signer, Sas) else "login"
        return Circumstances(
            entry,
            self._address.container,
            self._account,
            way,
            sas_facts(signer.token) if isinstance(signer, Sas) else None,
            self.clock_ahead_s,
            self._profile,
        )


def _signer(entry: OpenedStore, account: str, environ: Mapping[str, str]) -> Signer:
    if entry.options.key:
        return SharedKey(account, check_key(entry))
    if entry.options.sas:
        return Sas(read_sas(entry))
    return Bearer(token_source(entry, environ))
