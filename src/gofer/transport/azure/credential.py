"""The user's login: gets a token for a scope from wherever the user is signed in.

The sources, in this order: a service principal in the environment, a managed identity that the environment
offers, a login by device code that gofer keeps, and `az`. Tokens are kept between commands, so that most
commands load neither azure-identity nor start `az`, which take longer than the rest of the command.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gofer.transport.azure import device, token_sources
from gofer.transport.azure.profile import TENANT_VARIABLE, folder_of, name_of
from gofer.transport.azure.tokens import Token, TokenFiles

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken

_CERTIFICATE = "AZURE_CLIENT_CERTIFICATE_PATH"
_PROOFS = ("AZURE_CLIENT_SECRET", _CERTIFICATE, "AZURE_FEDERATED_TOKEN_FILE")
_MANAGED = ("IDENTITY_ENDPOINT", "MSI_ENDPOINT")


_locks: dict[tuple[str, str], threading.Lock] = {}


def _lock_of(folder: str, profile: str) -> threading.Lock:
    """One lock for all credentials of a profile: only one of them starts `az`, and the others reuse its
    token.
    """
    # setdefault is atomic, so two threads always get the same lock.
    return _locks.setdefault((folder, profile), threading.Lock())


class Way(NamedTuple):
    """One source of tokens: its owner, in words without a secret, and the function that fetches a token."""

    who: str
    fetch: Callable[[str, str | None], Token]


class AzureCredential:
    """A TokenCredential of azure-core for the user who is signed in. Any thread may call; calls block.

    `folder` keeps tokens. `remember` is called with every token, so that messages can hide it. `environ`
    selects the profile (default: the environment of the process). `authority` is the address of the login
    service.
    """

    def __init__(
        self,
        folder: str,
        environ: Mapping[str, str] | None = None,
        *,
        authority: str,
        remember: Callable[[str], None] | None = None,
    ) -> None:
        self._folder = folder
        self._environ = os.environ if environ is None else environ
        self._authority = authority
        self._remember = remember
        self._files = TokenFiles(folder)
        self._lock = _lock_of(folder, folder_of(self._environ))

    @property
    def profile(self) -> str:
        """The name of the profile, for messages."""
        return name_of(self._environ)

    def token(self, scope: str, *, claims: str | None = None) -> Token:
        """A token that stays valid for at least five minutes; CredentialError when nobody is signed in.

        `claims` are additional demands of the service; with them, the kept token is not used.
        """
        with self._lock:  # one thread fetches the token, the others then find it in the file
            # Decided for each token, because the user may sign in or out while a program runs.
            way = self._way()
            found = None if claims else self._files.read(way.who, scope)
            if found is None:
                found = way.fetch(scope, claims)
                self._files.write(way.who, scope, found)
        if self._remember:
            self._remember(found.value)
        return found

    def get_token(self, *scopes: str, claims: str | None = None, **_: object) -> AccessToken:
        """The method that azure-core calls."""
        from azure.core.credentials import AccessToken

        found = self.token(scopes[0], claims=claims)
        return AccessToken(found.value, int(found.expires_at))

    def forget(self, scope: str) -> None:
        """Drop the token for `scope`, which the service has refused: the next call fetches a new one."""
        with self._lock:
            self._files.drop(self._way().who, scope)

    @property
    def who(self) -> str:
        """The owner of the tokens: `principal CLIENT`, `managed identity`, `device code`, or `az`, and the
        profile.
        """
        return self._way().who.partition("\0")[0]

    def _way(self) -> Way:
        environ = self._environ
        proof = _proof(environ)
        if proof:
            return self._principal(proof)
        if _is_managed(environ):
            return self._managed()
        if device.is_kept(self._folder, environ):
            return Way(f"device code{self._place()}", self._from_device)
        return Way(f"az{self._place()}{_stamp(environ)}", self._from_az)

    def _place(self) -> str:
        """The profile, tenant and login service, as the last part of the owner's name."""
        environ = self._environ
        return f" in {folder_of(environ)}\0{environ.get(TENANT_VARIABLE, '')}\0{self._authority}"

    def _principal(self, proof: str) -> Way:
        environ = self._environ
        who = f"principal {environ['AZURE_CLIENT_ID']} of {environ['AZURE_TENANT_ID']}"
        return Way(
            f"{who}\0{self._authority}",
            lambda scope, claims: _principals_token(environ, proof, self._authority, scope, claims),
        )

    def _managed(self) -> Way:
        client = self._environ.get("AZURE_CLIENT_ID")
        who = f"managed identity {client}" if client else "managed identity"
        endpoint = next((self._environ[name] for name in _MANAGED if self._environ.get(name)), "")
        return Way(f"{who}\0{endpoint}", lambda scope, claims: token_sources.managed(client, scope, claims))

    def _from_device(self, scope: str, claims: str | None) -> Token:
        return device.silent(self._folder, self._environ, self._authority, scope, claims)

    def _from_az(self, scope: str, claims: str | None) -> Token:
        return token_sources.az_token(scope, self._environ)


def _principals_token(
    environ: Mapping[str, str], proof: str, authority: str, scope: str, claims: str | None
) -> Token:
    if proof == _CERTIFICATE:
        return token_sources.certified(environ, authority, scope, claims)
    return token_sources.principal(environ, proof, authority, scope, claims)


def device_code(
    scope: str,
    say: Callable[[str], None],
    *,
    folder: str,
    environ: Mapping[str, str],
    authority: str,
) -> Token:
    """Sign a user in by a code that the user types in a browser. Blocks for up to fifteen minutes.

    The login is kept under `folder`, for the profile that AZURE_CONFIG_DIR names, and used from then on.
    """
    return device.sign_in(folder, environ, authority, scope, say)


def sign_out(folder: str, environ: Mapping[str, str] | None = None) -> bool:
    """Remove the login by device code and the tokens of the profile; False when there was neither."""
    login_environ = os.environ if environ is None else environ
    files = TokenFiles(folder)
    place = f" in {folder_of(login_environ)}\0"
    dropped = files.drop_all(f"az{place}") + files.drop_all(f"device code{place}")
    return device.forget(folder, login_environ) or dropped > 0


def environment_identity(environ: Mapping[str, str]) -> str | None:
    """The identity that the environment itself names, so that no profile is used; None without one."""
    if _proof(environ) is not None:
        return f"service principal {environ['AZURE_CLIENT_ID']}"
    return "managed identity" if _is_managed(environ) else None


def has_environment_identity(environ: Mapping[str, str]) -> bool:
    return environment_identity(environ) is not None


def _proof(environ: Mapping[str, str]) -> str | None:
    """The variable with the proof of a service principal; None when the environment has no such principal."""
    if not (environ.get("AZURE_CLIENT_ID") and environ.get(TENANT_VARIABLE)):
        return None
    return next((name for name in _PROOFS if environ.get(name)), None)


def _is_managed(environ: Mapping[str, str]) -> bool:
    """Whether to use a managed identity.

    A virtual machine offers its identity at a fixed address without any variable. gofer tries this address
    only when the user asks for it: on other machines the attempt waits for a timeout.
    """
    is_wanted = environ.get("AZURE_TOKEN_CREDENTIALS", "").lower() in ("prod", "managedidentitycredential")
    return is_wanted or any(environ.get(name) for name in _MANAGED)


def _stamp(environ: Mapping[str, str]) -> str:
    """A text that changes when another user signs in to `az`, or another subscription is chosen."""
    try:
        return f"\0{os.stat(os.path.join(folder_of(environ), 'azureProfile.json')).st_mtime_ns}"
    except OSError:
        return "\0"
