"""`config_param` of ACT's file, with the places of its code and its mapped folders, as a store and
folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gofer.importers.accounts import import_account, missing_file, runs_store
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import named_file
from gofer.importers.keys import SheetKeys

_CODE = "code_path"
_ACCOUNT = "azure_blob_config_file"
_OWN, _SHARED = "the account is a store", "the account of folders that name none"
_IN_FOLDER = {
    "storage_type": "gofer reads blobs",
    "file_share": "gofer reads blobs, not file shares",
    "blob_cache_timeout": "gofer's mount has its own cache",
    "datastore_name": "gofer makes and finds datastores itself",
    "submit_with_url": "no address with a signature is part of a run",
}


class _Param(NamedTuple):
    """One value of `config_param`: a map, or in older files the path alone, with no map beside it.

    `holder` and `at` are where its path stands.
    """

    key: str
    more: SheetKeys
    holder: SheetKeys
    at: str

    @property
    def path(self) -> str | None:
        return self.holder.text(self.at)


def _params(keys: SheetKeys) -> Iterator[_Param]:
    params = keys.inner("config_param")
    for key in params:
        if params.is_table(key):
            yield _Param(key, params.inner(key), params.inner(key), "path")
        elif params.is_text(key) and (key == _CODE or _folder_name(key)):
            yield _Param(key, params.without(key), params, key)


def import_folders(draft: ImportDraft, keys: SheetKeys, target: str, root: Path) -> Entry:
    """The store of the target, in the account that held its code, and its mapped folders."""
    if keys.text(_ACCOUNT):
        keys.dropped(_ACCOUNT, "every folder names its own account")
    accounts, found, code = list[str](), dict[str, Entry](), None
    for one in _params(keys):
        name = _folder_name(one.key)
        for unused, why in _IN_FOLDER.items():
            one.more.dropped(unused, why)
        account, why = _account(draft, keys, one, root)
        if account is None:
            if name:
                draft.problems[target, name] = (why, one.more.place)
            continue
        if one.key == _CODE:
            code = one.path
            one.holder.changed(one.at, f"targets.{target}.store", "gofer's own folder lies beside it")
            accounts.insert(0, account)
        elif name:
            found[name] = {"store": account, "path": (one.path or "").strip("/") or "/"}
            one.holder.carried(one.at, f"targets.{target}.folders.{name}.path")
            accounts.append(account)
    entry: Entry = {"store": runs_store(draft, accounts[0], code)} if accounts else {}
    if found:
        entry["folders"] = dict(found)
    return entry


def _folder_name(key: str) -> str | None:
    """`data_folder` maps the folder `data`."""
    name = key.removesuffix("_folder")
    return name if name and name != key else None


def _account(draft: ImportDraft, keys: SheetKeys, one: _Param, root: Path) -> tuple[str | None, str]:
    """The store of one value of `config_param`; None when there is none, with the reason in the findings."""
    where, name = f"config_param.{one.key}", _folder_name(one.key)
    kind = one.more.text("storage_type")
    store, why = None, f"`{where}` needs the key `{_ACCOUNT}`"
    if name is not None and safe_name(name) != name:
        why = f"the folder `{name}` cannot be placed beside the code of a run"
    elif kind not in (None, "blob"):
        why = f"`{where}` lies in a storage of the type `{kind}`, and gofer reads blobs only"
    else:
        holder, about = (one.more, _OWN) if one.more.text(_ACCOUNT) else (keys, _SHARED)
        store, why = _store(draft, holder, about, root) or (None, why)
    if store is None:
        one.holder.dropped(one.at, why)
        for key in (_ACCOUNT, *_IN_FOLDER):
            one.more.dropped(key, why)
    return store, why


def _store(draft: ImportDraft, keys: SheetKeys, about: str, root: Path) -> tuple[str | None, str] | None:
    """The store of the account file that the table names; None when it names none."""
    named = keys.text(_ACCOUNT)
    if not named:
        return None
    path = named_file(root, named)
    store = import_account(draft, path)
    if store is not None:
        keys.changed(_ACCOUNT, f"stores.{store}", about)
        return store, ""
    why = missing_file(path)
    draft.note(why)
    keys.dropped(_ACCOUNT, why)
    return None, why
