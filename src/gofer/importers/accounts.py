"""Imports the blob account files and the workspace file of the older Azure tools into a draft."""

from __future__ import annotations

import os
from pathlib import Path

from gofer.config.yaml.document import display
from gofer.errors import ConfigError
from gofer.importers.account import near_file
from gofer.importers.draft import Entry, ImportDraft
from gofer.importers.foreign import read_foreign
from gofer.importers.keys import Sheet, SheetKeys
from gofer.text import did_you_mean

OWN_FOLDER = "gofer"
WORKSPACE_KEYS = {
    "subscription_id": "subscription_id",
    "resource_group": "resource_group",
    "workspace_name": "workspace",
}


def import_account(draft: ImportDraft, path: Path) -> str | None:
    """The store that the account file becomes; None when there is no such file. Each file is imported
    once.
    """
    if draft.accounts is not None:
        return draft.accounts(path)
    if path in draft.taken:
        return draft.taken[path]
    if not os.path.exists(path):
        return path.stem if draft.has_store(path.stem) else None
    keys = draft.sheet(Sheet(read_foreign(path), has_references=True))
    draft.taken[path] = name = blob_store(draft, keys, path.stem)
    return name


def runs_folder(code: str | None) -> str:
    """Where in an account runs are kept, by the path of the older tool's archive: `me/code/x.zip` gives
    `me/gofer`.
    """
    folders = (code or "").strip("/").split("/")[:-1]
    return "/".join([*(folders[:-1] or folders), OWN_FOLDER])


def runs_store(draft: ImportDraft, account: str, code: str | None) -> str:
    """The store of a target's runs: gofer's own folder in the account, beside the folder that held the
    code.
    """
    prefix = runs_folder(code)
    if draft.accounts is not None:
        return f"{account}:{prefix}"
    entry = draft.stores.get(account)
    if entry is None:
        return account  # the store is in gofer.yaml already, and says itself where it is
    return draft.add_store(f"{account}-{OWN_FOLDER}", {**entry, "url": f"{entry['url']}/{prefix}"})


def blob_store(draft: ImportDraft, keys: SheetKeys, wanted: str) -> str:
    """A store from `account_name`, `container_name` and the credentials; ConfigError when one is missing.

    With a key and a token the token is dropped, since gofer takes the key, and a reference that nobody set
    would be in the way.
    """
    account, container = keys.text("account_name"), keys.text("container_name")
    for key, text in (("account_name", account), ("container_name", container)):
        if not text or not text.strip("/ "):
            raise ConfigError(
                f"the account needs the key `{key}`",
                where=keys.place.where,
                hint=did_you_mean(key, [one for one in keys if one not in _ACCOUNT_KEYS]),
            )
    assert account and container
    entry: Entry = {"url": f"az://{container.strip('/ ')}", "account": account}
    endpoint = keys.text("endpoint")
    if endpoint:
        entry["endpoint"] = endpoint
    for value in entry.values():
        draft.means(keys, str(value))
    name = draft.add_store(wanted, entry)
    keys.carried("account_name", f"stores.{name}.account")
    keys.changed("container_name", f"stores.{name}.url", "written as an address")
    keys.carried("endpoint", f"stores.{name}.endpoint")
    _credential(draft, keys, name)
    return name


_ACCOUNT_KEYS = ("account_name", "account_key", "sas_token", "container_name", "endpoint")


def _credential(draft: ImportDraft, keys: SheetKeys, store: str) -> None:
    entry = draft.stores[store]
    if "key" in entry or "sas" in entry:
        for key in ("account_key", "sas_token"):
            if key in keys:
                draft.forget(keys, key, f"`stores.{store}` has its credential from another file")
    elif (keys.text("account_key") or "").strip():
        entry["key"] = draft.keep(keys, "account_key", f"{store}-key", f"stores.{store}.key")
        if "sas_token" in keys:
            draft.forget(keys, "sas_token", "the key opens the account, and gofer takes the key first")
    elif (keys.text("sas_token") or "").strip():
        entry["sas"] = draft.keep(keys, "sas_token", f"{store}-sas", f"stores.{store}.sas")
        if "://" in (keys.text("sas_token") or ""):
            draft.note(f"`stores.{store}.sas` is what stands behind the `?` of the address in `sas_token`")
    else:
        draft.note(f"the store `{store}` has neither key nor token: `az login` opens it")


def import_workspace(draft: ImportDraft, path: Path, target: str) -> Entry:
    """Subscription, resource group and workspace out of the `config.json` that Azure ML gives away."""
    draft.taken[path] = None
    return workspace(draft.sheet(Sheet(read_foreign(path))), target)


def workspace(keys: SheetKeys, target: str) -> Entry:
    """As `import_workspace`, out of a table."""
    entry: Entry = {}
    for key, ours in WORKSPACE_KEYS.items():
        text = keys.text(key)
        if text is not None:
            entry[ours] = text
            keys.carried(key, f"targets.{target}.{ours}")
    return entry


def missing_file(path: Path) -> str:
    """Why something that names a file cannot be carried."""
    near = near_file(path)
    return f"there is no file `{display(path)}`{f' ({near})' if near else ''}; write it and import again"
