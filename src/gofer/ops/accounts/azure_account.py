"""Sign in to Azure and out again: with the Azure command line if it is installed, else with a device code.

Results never contain tokens: only whose they are, for which service, and when they expire.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from gofer.backends import registry
from gofer.config.paths import Paths
from gofer.config.redact import remember
from gofer.errors import CredentialError, GoferError, UsageError
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.ops.messages import AnyMessage, Message
from gofer.text import format_time
from gofer.transport import process
from gofer.transport.azure import credential
from gofer.transport.azure.cloud import cloud_name, find_cloud
from gofer.transport.azure.credential import device_code, environment_identity
from gofer.transport.azure.device import is_kept
from gofer.transport.azure.profile import DEFAULT, TENANT_VARIABLE, folder_of
from gofer.transport.azure.tokens import TokenFiles
from gofer.transport.process import attend

if TYPE_CHECKING:
    from gofer.ops.session import Session

# A person may need time for a second factor; a device code is valid for fifteen minutes.
_LOGIN_S = 1200.0
_LOGOUT_S = 120.0


class StoredToken(TypedDict):
    """A token that gofer stores, without the token itself. `by` is the way of the login."""

    scope: str
    by: str
    expires: str | None
    left_s: int


class AccountFacts(TypedDict):
    """What gofer knows of one profile. `chosen_by` says what made it the one in use; `environment` is an
    identity in environment variables, which takes precedence.
    """

    profile: str
    is_active: bool
    chosen_by: str | None
    folder: str
    user: str | None
    user_kind: str | None
    tenant: str | None
    cloud: str | None
    subscriptions: list[dict[str, str | bool]]
    tokens: list[StoredToken]
    device_login: bool
    environment: str | None


class SignedOut(TypedDict):
    """Whether somebody was signed in to the profile, and who."""

    profile: str
    user: str | None
    signed_out: bool


class LoginRequest(NamedTuple):
    """The request of a person. `secret` belongs to the service principal `client`."""

    profile: str | None = None
    device_code: bool = False
    tenant: str | None = None
    client: str | None = None
    secret: str | None = None
    cloud: str | None = None


def token_folder(paths: Paths) -> str:
    """The folder with this user's tokens on this machine."""
    return str(paths.queue_home / "azure")


def find_az(environ: Mapping[str, str]) -> str | None:
    """The path of the Azure command line; None when it is not on the PATH."""
    return shutil.which("az", path=environ.get("PATH", os.defpath))


def sign_in(
    environ: Mapping[str, str], request: LoginRequest, emit: Callable[[AnyMessage], None]
) -> AccountFacts:
    """Sign in, and wait for the person; the facts of the profile. CredentialError when that fails.

    Tokens of an earlier login of the profile are removed. A profile that is new is removed again when the
    login fails.
    """
    profiles = Profiles.of(environ)
    name = request.profile or profiles.active
    is_new = name not in profiles.names()
    profiles.make(name)
    try:
        if request.tenant:
            profiles.keep_tenant(name, request.tenant)
        if request.cloud:
            profiles.keep_cloud(name, request.cloud)
        _enter(environ, profiles.environ_of(name), request, emit)
    except BaseException:
        if is_new:
            profiles.remove(name)
        raise
    return account_facts(environ, name)


def _enter(
    environ: Mapping[str, str],
    around: Mapping[str, str],
    request: LoginRequest,
    emit: Callable[[AnyMessage], None],
) -> None:
    if find_az(environ) is not None:
        _by_az(around, request)
        _forget_tokens(environ, around)
    elif request.client:
        raise UsageError(
            "a service principal needs no login here: gofer reads it from the environment",
            hint="set `AZURE_CLIENT_ID`, `AZURE_TENANT_ID` and `AZURE_CLIENT_SECRET`",
        )
    else:
        _forget_tokens(environ, around)
        _by_code(environ, around, emit)


def sign_out(environ: Mapping[str, str], profile: str | None) -> SignedOut:
    """Sign the Azure command line out in this profile, and remove every token that gofer has for it."""
    profiles = Profiles.of(environ)
    name = profile or profiles.active
    around = profiles.environ_of(name)
    was = profiles.signed(name)
    if was is not None:
        _leave_az(around, profiles.folder_of(name), name)
    dropped = _forget_tokens(environ, around)
    profiles.keep_tenant(name, None)
    profiles.keep_cloud(name, None)
    return {"profile": name, "user": was.user if was else None, "signed_out": was is not None or dropped}


def account_facts(environ: Mapping[str, str], name: str | None = None) -> AccountFacts:
    """All facts about one profile: user, tenant, subscriptions, and when stored tokens expire. Calls no
    service.
    """
    profiles = Profiles.of(environ)
    active, origin = profiles.chosen()
    name = name or active
    folder = profiles.folder_of(name)
    signed = profiles.signed(name)
    return {
        "profile": name,
        "is_active": name == active,
        "chosen_by": origin if name == active else None,
        "folder": str(folder),
        "user": signed.user if signed else None,
        "user_kind": signed.kind if signed else None,
        "tenant": profiles.tenant(name) or (signed.tenant if signed else None),
        "cloud": cloud_name(profiles.environ_of(name)),
        "subscriptions": [one._asdict() for one in signed.subscriptions] if signed else [],
        "tokens": _tokens(environ, profiles.environ_of(name)),
        "device_login": _has_device_login(environ, profiles.environ_of(name)),
        "environment": environment_identity(environ),
    }


def profile_of(session: Session, target: str) -> str:
    """The profile that a target uses; UnknownName when there is no such target."""
    named = registry.capabilities_of(session.settings.target(target)).profile
    return Profiles.of(session.environ).choice(named)[0]


def users_of(session: Session) -> dict[str, list[str]]:
    """By profile, the targets that use it. A target that cannot be read is left out."""
    found: dict[str, list[str]] = {}
    for name in session.settings.target_names:
        with suppress(GoferError):
            if registry.find(session.settings.target(name).kind).uses_azure_login:
                found.setdefault(profile_of(session, name), []).append(name)
    return found


def _by_az(around: Mapping[str, str], request: LoginRequest) -> None:
    words = ["az", "login", "--output", "none"]
    tenant = request.tenant or (around.get(TENANT_VARIABLE) if request.client else None)
    if tenant:
        words += ["--tenant", tenant]
    if request.client:
        if not tenant or not request.secret:
            missing = "secret" if tenant else "tenant"
            raise UsageError(
                f"a service principal needs its {missing}",
                hint="`--tenant T`, `AZURE_CLIENT_ID`, and the secret in `AZURE_CLIENT_SECRET` or on stdin",
            )
        # `@-` is the Azure command line's own way to read a value from stdin.
        words += ["--service-principal", "--username", request.client, "--password", "@-"]
    elif request.device_code or not _has_browser(around):
        words.append("--use-device-code")
    status = attend(
        words, timeout_s=_LOGIN_S, env=around, input_text=request.secret if request.client else None
    )
    if status != 0:
        raise CredentialError(
            f"`az login` ended with status {status}, and nobody is signed in",
            hint="see its output above; `gofer doctor azure` looks for the cause",
        )


def _has_browser(environ: Mapping[str, str]) -> bool:
    """Whether the person at the terminal would see a browser that is opened here."""
    shown = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or environ.get("BROWSER")
    return bool(shown) and not environ.get("SSH_CONNECTION")


def _by_code(
    environ: Mapping[str, str], around: Mapping[str, str], emit: Callable[[AnyMessage], None]
) -> None:
    folder = token_folder(Paths.from_environment(environ))
    cloud = find_cloud(around, folder)

    def emit_text(text: str) -> None:
        emit(Message(text))

    token = device_code(cloud.scope, emit_text, folder=folder, environ=around, authority=cloud.authority)
    remember(token.value)


def _leave_az(around: Mapping[str, str], folder: Path, name: str) -> None:
    """Sign out. In the person's own profile only the current login is removed; a profile of gofer is
    emptied.
    """
    words = ["az", "logout"] if name == DEFAULT else ["az", "account", "clear"]
    if find_az(around) is not None:
        done = process.run(words, timeout_s=_LOGOUT_S, env=dict(around))
        if done.status == 0:
            return
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GoferError(f"`{' '.join(words)}` ended with status {done.status}: {said[-1] if said else ''}")
    if name == DEFAULT:
        raise GoferError(
            f"`{folder}` holds a login of the Azure command line, and `az` is not on the PATH",
            hint="install `az`, or remove that folder yourself",
        )
    for path in folder.glob("*.json"):
        path.unlink(missing_ok=True)


def _forget_tokens(environ: Mapping[str, str], around: Mapping[str, str]) -> bool:
    # Without a tenant, the tokens of all tenants are removed.
    whole = {key: value for key, value in around.items() if key != TENANT_VARIABLE}
    return credential.sign_out(token_folder(Paths.from_environment(environ)), whole)


def _tokens(environ: Mapping[str, str], around: Mapping[str, str]) -> list[StoredToken]:
    """The tokens that gofer stores for this profile: scope and expiry, never the token itself."""
    place = f" in {folder_of(around)}"
    found = TokenFiles(token_folder(Paths.from_environment(environ))).held()
    return [
        {
            "scope": one.scope,
            "by": one.who.partition(" in ")[0],
            "expires": format_time(one.expires_at),
            "left_s": round(one.expires_at - time.time()),
        }
        for one in found
        if one.who.partition("\0")[0].endswith(place)
    ]


def _has_device_login(environ: Mapping[str, str], around: Mapping[str, str]) -> bool:
    return is_kept(token_folder(Paths.from_environment(environ)), around)
