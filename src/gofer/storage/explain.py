"""Explains a refusal of a service in one line: the store, the problem, and what to do.

The stores of this package call `explain` for each error of a service before it reaches their callers. Pure,
except for the clock.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from gofer.errors import CredentialError, GoferError, KeyExists, StoreError
from gofer.objects.facts import Exists, NotCopied, ObjectNotFound, ObjectsError, VersionMismatch
from gofer.storage.base import no_such_key
from gofer.storage.credentials import OpenedStore, SasFacts
from gofer.text import format_duration, format_moment
from gofer.transport.azure.profile import DEFAULT, in_profile, login_command

# Services refuse requests signed by a clock that is off by a quarter of an hour or more.
_CLOCK_S = 900.0
_LETTERS = {"read": "r", "write": "wc", "create": "cw", "delete": "d", "list": "l"}


class Circumstances(NamedTuple):
    """Facts about a store that explain an error. `way` is how it is opened: key, sas, login or s3."""

    entry: OpenedStore
    container: str
    account: str
    way: str
    sas: SasFacts | None = None
    clock_ahead_s: float | None = None
    profile: str = DEFAULT


class CopyRefused(StoreError):
    """The service cannot fetch the source of a copy. The bytes can still go through this machine."""


class FailedOperation(NamedTuple):
    """The failed operation: `read`, `write`, `create`, `delete` or `list`, and its key."""

    verb: str
    key: str = ""

    @property
    def description(self) -> str:
        return f"{self.verb} {self.key!r} in" if self.key else self.verb


def explain(error: ObjectsError, operation: FailedOperation, found: Circumstances) -> GoferError:
    """The error to raise in place of `error`."""
    if isinstance(error, ObjectNotFound):
        return no_such_key(found.entry.url, operation.key)
    if isinstance(error, Exists):
        return KeyExists(f"the store {found.entry.url} already has an object {operation.key!r}")
    if isinstance(error, VersionMismatch):
        return StoreError(f"{operation.key!r} in the store {found.entry.label} was replaced during the read")
    what = f"cannot {operation.description} the store {found.entry.label}: "
    if isinstance(error, NotCopied):
        detail = f"; {error.detail}" if error.detail else ""
        return CopyRefused(
            f"{what}{error.words}{detail}",
            hint="`gofer download` and `gofer upload` copy it through this machine",
        )
    if error.status == 0:
        return StoreError(what + error.words, hint=_network_hint(error, found))
    known = _CODES.get(error.code)
    if known:
        return known(what, error, found)
    if error.status in (401, 403):
        return _refused(what, error, operation, found)
    return StoreError(what + error.words)


def _network_hint(error: ObjectsError, found: Circumstances) -> str:
    if error.code == "name":
        part = "its `endpoint`" if found.entry.options.endpoint else f"the account `{found.account}`"
        return f"check the spelling of {part}, and whether this machine is online"
    if error.code == "tls":
        return "set `SSL_CERT_FILE` to the certificates of the authority that signed it"
    if error.code in ("timeout", "connection"):
        return "check the network, and the store's `endpoint` if it has one"
    return ""


def _refused(what: str, error: ObjectsError, operation: FailedOperation, found: Circumstances) -> GoferError:
    ahead_s = found.clock_ahead_s
    # First, because a wrong clock explains every refusal, whatever the credential is.
    if ahead_s is not None and abs(ahead_s) > _CLOCK_S:
        which = "behind" if ahead_s > 0 else "ahead of"
        return CredentialError(
            f"{what}this machine's clock is {format_duration(abs(ahead_s))} {which} the service's",
            hint="set the clock, for example with `timedatectl set-ntp true`",
        )
    if found.sas:
        return _refused_sas(what, error, operation, found.entry, found.sas)
    if found.way == "key":
        return _refused_key(what, error, found)
    if found.way == "login":
        return _refused_login(what, error, found)
    return CredentialError(
        f"{what}{error.words}; the keys have no right to {operation.verb}",
        hint=f"ask the owner of `{found.container}` for that right, or {found.entry.mend('secret_key')}",
    )


def _refused_sas(
    what: str, error: ObjectsError, operation: FailedOperation, entry: OpenedStore, sas: SasFacts
) -> CredentialError:
    now = time.time()
    mend = entry.mend("sas")
    if sas.expires_at is not None and sas.expires_at <= now:
        ago = format_duration(now - sas.expires_at)
        return CredentialError(
            f"{what}its SAS expired at {format_moment(sas.expires_at)}, {ago} ago", hint=mend
        )
    if sas.starts_at is not None and sas.starts_at > now:
        ahead = format_duration(sas.starts_at - now)
        return CredentialError(
            f"{what}its SAS is valid only from {format_moment(sas.starts_at)}, in {ahead}", hint=mend
        )
    problem = _sas_problem(error, operation, sas)
    return CredentialError(what + problem, hint=mend)


def _sas_problem(error: ObjectsError, operation: FailedOperation, sas: SasFacts) -> str:
    """The problem. The most certain facts first: the SAS itself, the service's code, then a guess."""
    if sas.lacks(_LETTERS[operation.verb]):
        return f"its SAS lacks the permission `{operation.verb}`; it has {sas.words()}"
    if sas.services is not None and "b" not in sas.services:
        return f"its SAS is not for blobs (`ss={sas.services}`)"
    if sas.resources is not None and (("c" if operation.verb == "list" else "o") not in sas.resources):
        needed = "containers" if operation.verb == "list" else "objects"
        return f"its SAS is not for {needed} (`srt={sas.resources}`)"
    if error.code == "AuthorizationSourceIPMismatch":
        return f"its SAS is for other addresses than this machine's (`sip={sas.addresses}`)"
    if error.code == "AuthorizationProtocolMismatch":
        return f"its SAS is only for `{sas.protocols}`"
    if error.code == "AuthorizationPermissionMismatch":
        return f"its SAS lacks the permission `{operation.verb}`"
    if sas.policy:
        return f"its SAS is refused; its access policy `{sas.policy}` may have ended"
    return (
        "its SAS is refused: it is for another account or container, or was revoked with the account's "
        "key, or the account's firewall blocks this machine"
    )


def _refused_key(what: str, error: ObjectsError, found: Circumstances) -> CredentialError:
    if error.code == "KeyBasedAuthenticationNotPermitted":
        return CredentialError(
            f"{what}the account `{found.account}` does not accept keys",
            hint="remove `key:` and sign in with `az login`",
        )
    # Azure answers AuthenticationFailed for a wrong key and AuthorizationFailure for its firewall; Azurite
    # answers AuthorizationFailure for both.
    is_key = error.code == "AuthenticationFailed" or found.entry.options.endpoint
    wrong = f"the key does not belong to the account `{found.account}`"
    walled = f"the firewall of the account `{found.account}` blocks this machine"
    if error.code == "AuthenticationFailed":
        return CredentialError(what + wrong, hint=found.entry.mend("key"))
    if is_key:
        return CredentialError(f"{what}{wrong}, or {walled}", hint=found.entry.mend("key"))
    return CredentialError(what + walled, hint=_wall_hint(found.account))


def _refused_login(what: str, error: ObjectsError, found: Circumstances) -> CredentialError:
    if error.code in ("AuthorizationPermissionMismatch", "InsufficientAccountPermissions"):
        return CredentialError(
            f"{what}your login{in_profile(found.profile)} has no role that allows it",
            hint=f"ask for `Storage Blob Data Contributor` on the account `{found.account}`; `profile: NAME` "
            "next to its `url` selects another login",
        )
    if error.code == "AuthorizationFailure":
        return CredentialError(
            f"{what}the firewall of the account `{found.account}` blocks this machine",
            hint=_wall_hint(found.account),
        )
    return CredentialError(
        f"{what}your login{in_profile(found.profile)} is refused ({error.code})",
        hint="`az login`" if found.profile == DEFAULT else login_command(found.profile),
    )


def _wall_hint(account: str) -> str:
    return f"add this machine's address under Networking of `{account}`, or use its VPN"


# -- answers with one meaning, however the store is opened


def _no_container(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    kind = "bucket" if found.way == "s3" else "container"
    where = f" in the account `{found.account}`" if found.account else ""
    label = found.entry.name or found.entry.url
    return StoreError(
        f"{what}there is no {kind} `{found.container}`{where}",
        hint=f"`gofer store check {label} --create` creates it",
    )


def _being_deleted(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    return StoreError(
        f"{what}the container `{found.container}` is being deleted", hint="try again in a minute"
    )


def _bad_name(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    return StoreError(f"{what}the service does not accept a name in it ({error.code})")


def _unknown_key(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    return CredentialError(
        f"{what}the service does not know the access key", hint=found.entry.mend("access_key", "secret_key")
    )


def _wrong_secret(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    return CredentialError(
        f"{what}the secret key does not belong to the access key", hint=found.entry.mend("secret_key")
    )


def _expired_token(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    return CredentialError(f"{what}its temporary keys have expired", hint=found.entry.mend("session_token"))


def _wrong_region(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    region = error.detail or "…"
    return StoreError(
        f"{what}the bucket `{found.container}` is in another region",
        hint=f"add `region: {region}` to its entry",
    )


def _disabled(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    return StoreError(f"{what}the account `{found.account}` is disabled", hint="ask its owner")


def _no_copy(what: str, error: ObjectsError, found: Circumstances) -> GoferError:
    return CopyRefused(f"{what}the service cannot fetch the source of the copy ({error.code})")


_CODES = {
    "CannotVerifyCopySource": _no_copy,
    "APINotImplemented": _no_copy,
    "ContainerNotFound": _no_container,
    "NoSuchBucket": _no_container,
    "ContainerBeingDeleted": _being_deleted,
    "ContainerDisabled": _disabled,
    "AccountIsDisabled": _disabled,
    "OutOfRangeInput": _bad_name,
    "InvalidResourceName": _bad_name,
    "InvalidUri": _bad_name,
    "KeyTooLongError": _bad_name,
    "InvalidAccessKeyId": _unknown_key,
    "SignatureDoesNotMatch": _wrong_secret,
    "ExpiredToken": _expired_token,
    "PermanentRedirect": _wrong_region,
    "AuthorizationHeaderMalformed": _wrong_region,
    "IllegalLocationConstraintException": _wrong_region,
}
