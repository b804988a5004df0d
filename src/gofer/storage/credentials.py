"""The credentials of a store in `stores:`: the address of the service, and the keys.

This module asks no service. Secrets that it finds are hidden in messages from then on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from gofer.config.redact import remember
from gofer.config.stores import SECRET_KEYS, StoreOptions
from gofer.errors import ConfigError, CredentialError, UsageError
from gofer.objects.azure_auth import bare_token, sas_fields
from gofer.objects.wire import ServerAddress
from gofer.text import parse_time

_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"\$root|\$web|[a-z0-9](?:-?[a-z0-9]){2,62}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,221}[a-z0-9]")
_PERMISSIONS = {
    "r": "read",
    "a": "add",
    "c": "create",
    "w": "write",
    "d": "delete",
    "x": "delete versions",
    "l": "list",
    "t": "tags",
    "i": "immutability",
}


class OpenedStore(NamedTuple):
    """How a store is opened: its URL, options, name in the settings, and the options as the user wrote them.

    The repr shows no secret.
    """

    url: str
    options: StoreOptions = StoreOptions()
    name: str | None = None
    written: StoreOptions = StoreOptions()

    @property
    def label(self) -> str:
        """The store in messages."""
        return f"`{self.name}` ({self.url})" if self.name else self.url

    def mend(self, *keys: str) -> str:
        """A hint that says how to give the store another credential."""
        for key in keys:
            text = getattr(self.written, key) or ""
            found = re.fullmatch(r"\$\{(secret|env|file):([^}:]*)[^}]*\}", text.strip())
            if found:
                return _MEND[found[1]].format(found[2])
            if text:
                return f"set another `{key}` where this one is set"
        return f"set another {' or '.join(f'`{key}`' for key in keys)} for the store"


_MEND = {
    "secret": "set another with `gofer secret set {}`",
    "env": "set another value in the variable `{}`",
    "file": "write another value to `{}`",
}


class StoreAddress(NamedTuple):
    """The parts of `scheme://container@account/prefix`."""

    container: str
    account: str | None
    prefix: str


class SasFacts(NamedTuple):
    """The fields of a SAS. Times are seconds since the epoch; None for a field that the SAS does not have."""

    starts_at: float | None
    expires_at: float | None
    permissions: str
    services: str | None
    resources: str | None
    addresses: str | None
    protocols: str | None
    policy: str | None

    def lacks(self, permission: str) -> bool:
        """Whether the SAS names its permissions and has none of these letters."""
        return bool(self.permissions) and not set(permission) & set(self.permissions)

    def words(self) -> str:
        """The permissions, for people."""
        return ", ".join(_PERMISSIONS.get(letter, letter) for letter in self.permissions) or "none"


def read_address(url: str) -> StoreAddress:
    """The parts of a cloud store's URL; UsageError when the URL is not valid."""
    scheme, _, rest = url.partition("://")
    if "?" in rest or "#" in rest:
        raise UsageError(
            f"`{url.partition('?')[0]}?…` is not a store's URL: it must not have a query",
            hint="put a signature into `sas:`, as a reference",
        )
    place, _, prefix = rest.partition("/")
    container, at, account = place.partition("@")
    prefix = unquote(prefix.strip("/"))
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise UsageError(f"`{url}` is not a store's URL: its path has an empty, `.` or `..` part")
    pattern, kind = (_CONTAINER, "container") if scheme == "az" else (_BUCKET, "bucket")
    if not pattern.fullmatch(container) or (at and scheme != "az"):
        raise UsageError(
            f"`{url}` does not name a {kind}", hint=f"write `{scheme}://{kind}` or `{scheme}://{kind}/folder`"
        )
    return StoreAddress(container, account or None, prefix)


def azure_endpoint(entry: OpenedStore, account: str) -> str | None:
    """The URL of the account's blob service, if the store's options say it.

    For an emulator, the account is part of the path.
    """
    endpoint = read_endpoint(entry) or _url_of(entry.options.sas)
    if not endpoint:
        return None
    parts = urlsplit(endpoint)
    path, host = parts.path.rstrip("/"), parts.hostname or ""
    # Emulators are reached by address or as localhost, where the account cannot be part of the host name.
    if not path and (host == "localhost" or re.fullmatch(r"[\d.]+|.*:.*", host)):
        path = f"/{account}"
    return f"{parts.scheme}://{parts.netloc}{path}"


def read_endpoint(entry: OpenedStore) -> str | None:
    """The `endpoint` with its scheme; None without one. ConfigError when it is not an address."""
    endpoint = entry.options.endpoint
    if not endpoint:
        return None
    whole = endpoint if "://" in endpoint else f"https://{endpoint}"
    try:
        ServerAddress.of(whole)
        return whole
    except ValueError as error:
        raise ConfigError(f"the `endpoint` of the store {entry.label} is not valid: {error}") from None


def azure_account(entry: OpenedStore, address: StoreAddress) -> str:
    """The account's name: from the URL, from the options, or from a SAS that is a whole URL."""
    signed = urlsplit(_url_of(entry.options.sas) or "").hostname or ""
    named = signed.partition(".")[0] if signed.endswith((".net", ".com", ".cn", ".us", ".de")) else None
    account = address.account or entry.options.account or named
    if not account:
        raise ConfigError(
            f"the store {entry.label} needs the name of its storage account",
            hint="add `account: NAME` next to its `url`",
        )
    if not _ACCOUNT.fullmatch(account):
        raise ConfigError(
            f"`{account}`, of the store {entry.label}, is not the name of a storage account",
            hint="a name has 3 to 24 lower-case letters and digits",
        )
    return account


def check_key(entry: OpenedStore) -> str:
    """The account's key; CredentialError when it is not base64."""
    import base64

    key = (entry.options.key or "").strip()
    try:
        base64.b64decode(key, validate=True)
    except ValueError:
        raise CredentialError(
            f"the `key` of the store {entry.label} is not an account key: it is not base64",
            hint=entry.mend("key"),
        ) from None
    return key


def read_sas(entry: OpenedStore) -> str:
    """The bare token of the SAS; CredentialError when it has no signature."""
    token = bare_token(entry.options.sas or "")
    fields = sas_fields(token)
    if not fields.get("sig"):
        raise CredentialError(
            f"the `sas` of the store {entry.label} is not a shared access signature: it has no `sig`",
            hint=entry.mend("sas"),
        )
    for secret in (token, fields["sig"]):
        remember(secret)
    return token


def sas_facts(token: str) -> SasFacts:
    """The fields of a token. Pure."""
    fields = sas_fields(token)
    return SasFacts(
        _time(fields.get("st")),
        _time(fields.get("se")),
        fields.get("sp", ""),
        fields.get("ss"),
        fields.get("srt"),
        fields.get("sip"),
        fields.get("spr"),
        fields.get("si"),
    )


def remember_secrets(options: StoreOptions) -> None:
    """Hide the secrets of the options in messages. Options from other tools' files are not references."""
    for name in SECRET_KEYS:
        value = getattr(options, name)
        if value:
            remember(value.strip())


def s3_keys(entry: OpenedStore, environ: Mapping[str, str]) -> tuple[str, str, str | None]:
    """Access key, secret key and token: from the options, else the variables of AWS, else its credentials
    file.
    """
    options = entry.options
    if options.access_key and options.secret_key:
        return options.access_key, options.secret_key, options.session_token
    if options.access_key or options.secret_key:
        missing = "secret_key" if options.access_key else "access_key"
        raise ConfigError(f"the store {entry.label} needs `{missing}` too")
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        found = (environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"])
        # Only with keys from the environment: a token belongs to its keys.
        token = environ.get("AWS_SESSION_TOKEN")
    else:
        found, token = _profile(entry, environ)
    for secret in (found[1], token):
        if secret:
            remember(secret)
    return (*found, token)


def _profile(entry: OpenedStore, environ: Mapping[str, str]) -> tuple[tuple[str, str], str | None]:
    import configparser
    import os

    path = environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    # Raw, because a secret key may contain a percent sign.
    profiles = configparser.RawConfigParser()
    profiles.read(path)
    name = environ.get("AWS_PROFILE", "default")
    held = dict(profiles[name]) if profiles.has_section(name) else {}
    if not held.get("aws_access_key_id") or not held.get("aws_secret_access_key"):
        raise CredentialError(
            f"the store {entry.label} cannot be opened: its entry, the environment and `{path}` have no keys",
            hint="add `access_key:` and `secret_key: ${secret:NAME}` next to its `url`",
        )
    token = held.get("aws_session_token")
    return (held["aws_access_key_id"], held["aws_secret_access_key"]), token


def _url_of(sas: str | None) -> str | None:
    """The address before a SAS that is a whole URL, without the container, which `url` names."""
    before, mark, _ = (sas or "").strip().partition("?")
    if not mark or "://" not in before:
        return None
    parts = urlsplit(before)
    return f"{parts.scheme}://{parts.netloc}"


def _time(text: str | None) -> float | None:
    if not text:
        return None
    try:
        # A SAS without a time zone is in UTC.
        return parse_time(text if text.endswith("Z") or ("T" in text and "+" in text) else f"{text}Z")
    except UsageError:
        return None
