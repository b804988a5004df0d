"""Several Azure logins side by side: each profile is a configuration folder for the Azure command line.

`default` is the person's own folder (`~/.azure` or `AZURE_CONFIG_DIR`), which gofer never changes. Other
profiles are beside gofer's settings. The active profile is the first of: `GOFER_AZURE_PROFILE`, the
`profile:` of the target or store, `AZURE_CONFIG_DIR`, the choice of `gofer account use`, `default`. This
module calls no service: it reads from the files of `az` who is signed in. It never changes the environment of
the process. Each profile has its own environment mapping, so one command can use several profiles.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gofer.config.paths import Paths, home_folder
from gofer.config.sections import NAME_PATTERN
from gofer.core import private_folder
from gofer.core.json_text import parse_json
from gofer.errors import GoferError, UnknownName, UsageError
from gofer.text import did_you_mean
from gofer.transport.azure.cloud import in_cloud
from gofer.transport.azure.credential import has_environment_identity
from gofer.transport.azure.profile import (
    CLOUD_VARIABLE,
    DEFAULT,
    FOLDER_VARIABLE,
    TENANT_VARIABLE,
    VARIABLE,
    login_command,
)


class Subscription(NamedTuple):
    """One subscription that a login sees."""

    id: str
    name: str
    tenant: str
    is_default: bool
    state: str = ""


class Signed(NamedTuple):
    """The login of the Azure command line in a profile. `user` is the name of a person or an application."""

    user: str
    kind: str
    tenant: str
    subscriptions: tuple[Subscription, ...]


class Profiles:
    """The profiles of one user. Only `make`, `use` and the `keep_…` methods write files."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Profiles:
        return cls(Paths.from_environment(environ).config_file.parent / "azure", environ)

    def names(self) -> list[str]:
        """`default` first, then the others in order."""
        found = sorted(path.name for path in self._folder.iterdir()) if self._folder.is_dir() else []
        return [DEFAULT, *(name for name in found if _is_name(name) and (self._folder / name).is_dir())]

    @property
    def active(self) -> str:
        """The active profile. It may no longer exist; `folder_of` raises then."""
        return self.chosen()[0]

    def chosen(self) -> tuple[str, str]:
        """The active profile, and the setting that chose it."""
        return self.choice(None)

    def choice(self, named: str | None) -> tuple[str, str]:
        """The active profile when the settings name the profile `named`, and the setting that chose it."""
        forced = self._environ.get(VARIABLE)
        if forced:
            return forced, f"env {VARIABLE}"
        if named:
            return named, "its `profile`"
        if self._environ.get(FOLDER_VARIABLE):
            return DEFAULT, f"env {FOLDER_VARIABLE}"
        try:
            kept = self._choice.read_text().strip()
        except OSError:
            kept = ""
        return (kept, "`gofer account use`") if kept and _is_name(kept) else (DEFAULT, "built-in")

    def asking(self, named: str | None) -> str:
        """Like `choice`, but `default` when the environment itself has credentials."""
        return DEFAULT if has_environment_identity(self._environ) else self.choice(named)[0]

    def folder_of(self, name: str) -> Path:
        """The folder of `az` for this profile; UnknownName when there is no such profile."""
        if name == DEFAULT:
            own = self._environ.get(FOLDER_VARIABLE)
            return Path(own) if own else home_folder(self._environ) / ".azure"
        if name not in self.names():
            raise UnknownName(f"there is no Azure profile `{name}`", hint=self._mend(name))
        return self._folder / name

    def _mend(self, name: str) -> str:
        near = did_you_mean(name, self.names())
        makes = f"{login_command(name)} creates it" if _is_name(name) else "`gofer account` lists them"
        return f"{near} {makes}" if near else makes

    def environ_for(self, owner: str, named: str | None) -> dict[str, str]:
        """Like `environ_of`, for the profile that the settings of `owner` name, if any. `owner`, such as `the
        target `eus``, is part of the error when the profile does not exist. When the environment itself has
        credentials, no profile is needed.
        """
        if has_environment_identity(self._environ):
            return {**self._environ, VARIABLE: DEFAULT}
        name = self.asking(named)
        if name == named and name != DEFAULT and name not in self.names():
            raise UnknownName(
                f"{owner} names the Azure profile `{name}`, which does not exist", hint=self._mend(name)
            )
        return self.environ_of(name)

    def environ_of(self, name: str) -> dict[str, str]:
        """The environment in which the Azure command line and azure-identity use this profile."""
        own = {VARIABLE: name}
        if name != DEFAULT:
            own[FOLDER_VARIABLE] = str(self.folder_of(name))
        tenant, cloud = self.tenant(name), self._kept("cloud", name)
        if tenant and not self._environ.get(TENANT_VARIABLE):
            own[TENANT_VARIABLE] = tenant
        if cloud and not self._environ.get(CLOUD_VARIABLE):
            own = in_cloud(cloud, own)
        return {**self._environ, **own}

    def tenant(self, name: str) -> str | None:
        """The tenant that the person named at the login. It may differ from the home tenant of the user."""
        return self._kept("tenant", name)

    def keep_tenant(self, name: str, tenant: str | None) -> None:
        self._keep("tenant", name, tenant)

    def keep_cloud(self, name: str, cloud: str | None) -> None:
        """Remember the cloud that the person named at the login; `environ_of` includes it."""
        self._keep("cloud", name, cloud)

    def _kept(self, what: str, name: str) -> str | None:
        try:
            return (self._folder / f".{what}.{name}").read_text().strip() or None
        except OSError:
            return None

    def _keep(self, what: str, name: str, value: str | None) -> None:
        path = self._folder / f".{what}.{name}"
        if value is None:
            path.unlink(missing_ok=True)
        else:
            _check_name(value)
            private_folder.make_missing(self._folder)
            path.write_text(f"{value}\n")

    def make(self, name: str) -> None:
        """Make the profile's folder, private to the user. Idempotent."""
        _check_name(name)
        if name != DEFAULT:
            private_folder.make_missing(self._folder / name)

    def use(self, name: str) -> None:
        """Make the profile the default for this user's commands; UnknownName when it does not exist."""
        self.folder_of(name)
        if name == DEFAULT:
            self._choice.unlink(missing_ok=True)
            return
        private_folder.make_missing(self._folder)
        part = self._choice.with_suffix(f".{os.getpid()}")
        part.write_text(f"{name}\n")
        os.replace(part, self._choice)

    def remove(self, name: str) -> None:
        """Remove the profile and its login. UsageError for `default`, which belongs to the person."""
        if name == DEFAULT:
            raise UsageError(
                "the profile `default` is your own login of the Azure command line, and is never removed",
                hint="`gofer logout --profile default` signs it out",
            )
        folder = self.folder_of(name)
        was = self.chosen()
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise GoferError(f"cannot remove `{folder}`: {error.strerror}") from None
        self.keep_tenant(name, None)
        self.keep_cloud(name, None)
        if was == (name, "`gofer account use`"):
            self._choice.unlink(missing_ok=True)

    def signed(self, name: str) -> Signed | None:
        """Who is signed in, according to the profile's files; None when nobody is or they cannot be read."""
        try:
            # The Azure command line begins the file with a byte order mark.
            text = (self.folder_of(name) / "azureProfile.json").read_text(encoding="utf-8-sig")
            found = parse_json(text)["subscriptions"]
            rows = [_subscription(one) for one in found]
            first = next((one for one in found if one.get("isDefault")), found[0] if found else None)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if first is None:
            return None
        user = first.get("user")
        known = user if isinstance(user, dict) else {}
        tenant = str(first.get("tenantId", ""))
        return Signed(str(known.get("name", "")), str(known.get("type", "")), tenant, tuple(rows))

    @property
    def _choice(self) -> Path:
        return self._folder / ".active"


def _subscription(one: dict[str, object]) -> Subscription:
    id, name, tenant, state = (str(one.get(key, "")) for key in ("id", "name", "tenantId", "state"))
    return Subscription(id, name, tenant, bool(one.get("isDefault")), state)


def _is_name(name: str) -> bool:
    return re.fullmatch(NAME_PATTERN, name) is not None and len(name) <= 100


def _check_name(name: str) -> None:
    if not _is_name(name):
        raise UsageError(
            f"{name!r} cannot be the name of a profile or a tenant",
            hint="use letters, digits, `_`, `.` and `-`",
        )
