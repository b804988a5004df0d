"""The project of petctl: its files, its part of gofer.yaml, and its secrets."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import msgspec

from gofer.config.redact import remember
from gofer.config.secrets import Secrets
from gofer.config.yaml.text import Value, put
from gofer.errors import CredentialError
from gofer.importers.petctl import PetFiles, PetState
from gofer.ops.messages import Warning
from gofer.ops.session import Session
from gofer.ops.settings.config_edit import check_change, settings_file
from gofer.transport.azure.profile import TENANT_VARIABLE

if TYPE_CHECKING:
    from gofer.importers.petctl import PetCluster

TARGET = "petctl"
_CLIENT = "AZURE_CLIENT_ID"
_SECRET = "AZURE_CLIENT_SECRET"


class PetProject:
    """One project, and the session of one verb."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.files = PetFiles(session.folder)
        self._secrets = Secrets(session.paths.secrets_file)

    # -- settings

    def write_setting(self, keys: list[str], value: Value) -> None:
        """Write an entry of the project's gofer.yaml, in place of the one that is there."""
        file = settings_file(self.session, project=True)
        text = put(file.text, keys, value, file.shown)
        if text != file.text:
            check_change(self.session, file, text)
            file.write(text)
        self.reload()

    def reload(self) -> None:
        """Read the settings again, after they were written."""
        old = self.session
        self.session = Session(old.folder, old.environ, old.target, old.emit, old.ask)
        old.close()

    def remember(self, **changes: object) -> PetState:
        """Write what the next verbs need."""
        state = msgspec.structs.replace(self.files.state(), **changes)
        self.files.write_state(state)
        return state

    # -- secrets

    def keep_secret(self, what: str, value: str) -> str:
        """Save a secret of this project outside the project; the reference to it for gofer.yaml."""
        remember(value)
        self._secrets.set(self._secret_name(what), value)
        return f"${{secret:{self._secret_name(what)}}}"

    def find_secret(self, what: str) -> str | None:
        """The secret; None when it was never saved."""
        try:
            value = self._secrets.get(self._secret_name(what))
        except CredentialError:
            return None
        remember(value)
        return value

    def forget_secrets(self) -> None:
        """Remove all secrets of this project. Idempotent."""
        for name in self._secrets.names():
            if name.startswith(self._secret_name("")):
                self._secrets.remove(name)

    def warn_of_history(self, option: str) -> None:
        """Say that a secret was typed where the shell keeps it."""
        self.session.emit(
            Warning(
                f"the value of `{option}` stays in the history of your shell; "
                f"`{option} -` reads it from stdin"
            )
        )

    def _secret_name(self, what: str) -> str:
        mark = hashlib.sha256(os.fsencode(os.path.realpath(self.session.folder))).hexdigest()[:8]
        return f"petctl-{mark}-{what}"

    # -- login

    def log_in(self, cluster: PetCluster | None) -> None:
        """Use the service principal that `setup` was given, in all that this process does."""
        secret = self.find_secret("client-secret")
        if cluster is None or not cluster.client_id or secret is None:
            return
        self.use_login(cluster.client_id, secret, cluster.tenant)

    def use_login(self, client_id: str, secret: str, tenant: str) -> None:
        remember(secret)
        login = {_CLIENT: client_id, _SECRET: secret, TENANT_VARIABLE: tenant}
        os.environ.update(login)
        self.session.environ = {**self.session.environ, **login}
        self.reload()
