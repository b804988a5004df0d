"""Check the programs around Azure, most of which gofer does not need, and who is signed in."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from gofer.config.redact import remember
from gofer.core.json_text import parse_json
from gofer.errors import CredentialError, GoferError, Interrupted, Unreachable
from gofer.model.checks import Check, Status
from gofer.text import format_duration
from gofer.transport import process
from gofer.transport.azure.arm import Arm, ServicePatience
from gofer.transport.azure.cloud import find_cloud, in_cloud
from gofer.transport.azure.credential import AzureCredential
from gofer.transport.azure.profile import login_command

if TYPE_CHECKING:
    from gofer.backends.kind import CheckContext
    from gofer.transport.azure.arm import Arm
    from gofer.transport.azure.cloud import Cloud
    from gofer.transport.azure.credential import AzureCredential
    from gofer.transport.azure.tokens import Token

_OLDEST = (2, 32)
# The program usually takes a second or two, but sometimes ten.
_AZ_S = 20.0
_EXTENSIONS = ("ml", "ssh")
_NETWORK = "check the network: is there a VPN to switch on, or a proxy to name in `HTTPS_PROXY`?"
_INSTALL = "https://learn.microsoft.com/cli/azure/install-azure-cli"


class Access:
    """The access of one profile to Azure. Each fact is fetched once and shared by all checks.

    `owner` is the part of the settings that names the profile `named`. Without a name, the active profile is
    used.
    """

    def __init__(
        self, context: CheckContext, cloud: str | None = None, owner: str = "", named: str | None = None
    ) -> None:
        self.longest_run_s = context.longest_run_s
        self._token_folder = os.path.join(context.queue_home, "azure")
        self._cloud = cloud
        self._owner, self._named = owner, named
        self.profiles = context.logins
        self.profile = self.profiles.asking(named)

    @cached_property
    def environ(self) -> dict[str, str]:
        """The environment of the profile, in the target's cloud; UnknownName when the profile is gone."""
        around = self.profiles.environ_for(self._owner, self._named)
        return in_cloud(self._cloud, around) if self._cloud else around

    @cached_property
    def cloud(self) -> Cloud:
        return find_cloud(self.environ, self._token_folder)

    @cached_property
    def credential(self) -> AzureCredential:
        return AzureCredential(
            self._token_folder, self.environ, authority=self.cloud.authority, remember=remember
        )

    @cached_property
    def arm(self) -> Arm:
        """A client with a single try: a check reports a problem at once and does not wait for it to pass."""
        return Arm(self.cloud, self.credential, patience=ServicePatience(tries=1, silence_s=20.0))

    @cached_property
    def _answer(self) -> Token | GoferError:
        try:
            return self.credential.token(self.cloud.scope)
        except GoferError as error:
            return error

    @property
    def token(self) -> Token | None:
        """A token; None when nobody is signed in or the login service cannot be reached."""
        return None if isinstance(self._answer, GoferError) else self._answer

    @property
    def problem(self) -> GoferError | None:
        return self._answer if isinstance(self._answer, GoferError) else None

    @property
    def needs_az(self) -> bool:
        """Whether tokens come from the Azure command line."""
        try:
            return self.credential.who.startswith("az ")
        except GoferError:
            return True


def program_checks(environ: Mapping[str, str], access: Access) -> Iterator[Check]:
    """Check the Azure command line and its extensions, and name programs that only older tools needed."""
    if shutil.which("az", path=environ.get("PATH", os.defpath)) is None:
        yield _no_az(access)
    else:
        yield from _az(environ, access)
    yield Check("other programs", Status.OK, "none needed: no azcopy, no conda, no PowerShell")


def _no_az(access: Access) -> Check:
    if access.token is not None:
        return Check(
            "az", Status.OK, f"not on the PATH, and not needed: signed in by {access.credential.who}"
        )
    return Check(
        "az",
        Status.WARN,
        "the Azure command line is not on the PATH",
        f"{login_command(access.profile)} signs in without it; or install 2.32 or newer: {_INSTALL}",
    )


def _az(environ: Mapping[str, str], access: Access) -> Iterator[Check]:
    try:
        done = process.run(["az", "version", "--output", "json"], timeout_s=_AZ_S, env=environ)
        answer = parse_json(done.stdout)
        version, extensions = str(answer["azure-cli"]), answer.get("extensions") or {}
    except Interrupted as error:
        yield Check("az", Status.FAIL, error.message, _NETWORK)
        return
    except (GoferError, ValueError, KeyError, TypeError):
        words = "`az version` prints no version"
        yield Check("az", Status.FAIL if access.needs_az else Status.WARN, words, f"reinstall it: {_INSTALL}")
        return
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < _OLDEST:
        status = Status.FAIL if access.needs_az else Status.WARN
        yield Check("az", status, f"{version} is older than 2.32", f"`az upgrade`, or {_INSTALL}")
    else:
        yield Check("az", Status.OK, version)
    missing = [name for name in _EXTENSIONS if name not in extensions]
    installed = f"without {', '.join(f'`{name}`' for name in missing)}" if missing else "`ml`, `ssh`"
    yield Check("az extensions", Status.OK, f"{installed}; none is needed: gofer calls the services itself")


def login_checks(access: Access, what: str = "login") -> Iterator[Check]:
    """Check who is signed in and for how long, or why nobody is."""
    if access.token is not None:
        left = format_duration(access.token.expires_at - time.time())
        yield Check(what, Status.OK, f"{_who(access)}, the token expires in {left}")
        return
    error = access.problem
    assert error is not None
    if isinstance(error, Unreachable):
        yield Check(what, Status.FAIL, error.message, error.hint or _NETWORK)
    elif isinstance(error, CredentialError):
        yield _signed_out(access, error)._replace(name=what)
    else:
        yield Check(what, Status.FAIL, error.message, error.hint)


def _who(access: Access) -> str:
    who = access.credential.who
    name = access.profile
    signed = access.profiles.signed(name)
    if who.startswith("az ") and signed:
        return f"{signed.user} of the tenant {signed.tenant}, by the profile `{name}`"
    return who.partition(" in ")[0]


def _signed_out(access: Access, error: CredentialError) -> Check:
    """A failed check. The error of `az` tells whether nobody ever signed in or a login has expired."""
    name = access.profile
    signed = access.profiles.signed(name)
    if not access.needs_az or signed is None:
        return Check(
            "login", Status.FAIL, error.message, error.hint if not access.needs_az else login_command(name)
        )
    code = re.search(r"AADSTS\d+", _words_of_az(access))
    return Check(
        "login",
        Status.FAIL,
        f"the login of {signed.user} has expired{f' ({code[0]})' if code else ''}",
        f"{login_command(name)}; for another tenant, with `--tenant T`",
    )


def _words_of_az(access: Access) -> str:
    argv = ["az", "account", "get-access-token", "--output", "none"]
    try:
        return process.run(argv, timeout_s=_AZ_S, env=access.environ).stderr.decode(errors="replace")
    except GoferError:
        return ""
