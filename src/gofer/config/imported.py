"""Targets and stores of this project that other tools' files describe, in the words of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gofer.config.importers.account import read_account
from gofer.config.targets import Target
from gofer.errors import CheckFailed

if TYPE_CHECKING:
    from gofer.config.nodes import Table
    from gofer.config.settings import Settings

KIND = "azureml"


class ForeignOptions(msgspec.Struct, frozen=True):
    """No option of such a target is read yet."""


def imported_target(settings: Settings, name: str) -> Target:
    """The target in `aux_data/aml/NAME.yaml`; ConfigError when the file cannot be used.

    Its store is the account that holds its code, else that of its first folder.
    """
    files = settings.aml
    assert files is not None, "asked for only where `is_imported` says so"
    found = files.target(name)
    accounts = [found.code, *(folder.account_file for folder in found.folders.values())]
    account = next((path for path in accounts if path), None)
    store = files.store_name(account, settings.store_names) if account else "default"
    return Target(name, KIND, store, ForeignOptions(), None, found.place)


def only_data(target: Target) -> CheckFailed:
    """The error for whoever wants to run something on an imported target."""
    return CheckFailed(
        f"the target `{target.name}` ({target.place.origin}) is an Azure ML cluster, and this release moves "
        "data to it only",
        hint=f"running there comes with a later release; `gofer -c {target.name} u PATH` works now",
    )


def imported_store(settings: Settings, name: str) -> Table | None:
    """The account file of that name as an entry of `stores:`; None when there is none."""
    path = settings.aml.account_file(name) if settings.aml else None
    return read_account(path) if path else None


def imported_store_names(settings: Settings) -> list[str]:
    """The stores that the targets of other tools' files use; ConfigError when one cannot be read."""
    files, taken = settings.aml, settings.store_names
    return sorted(files.store_name(path, taken) for path in files.account_files()) if files else []
