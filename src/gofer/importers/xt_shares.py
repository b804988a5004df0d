"""`data` and `model` of XT's file: shares of its account, as folders of every target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.keys import SheetKeys
from gofer.importers.xt_sections import name_user


class _Share(NamedTuple):
    """One that every store of XT has: its container, its older name, and the variable that leads to it."""

    section: str
    container: str
    older: str
    variable: str


_SHARES = (
    _Share("data", "00-share-data", "xts-data-xts", "XT_DATA_DIR"),
    _Share("model", "00-share-models", "xts-models-xts", "XT_MODEL_DIR"),
)
_KEYS = ("local", "upload", "share-path", "action", "omit", "writable")


def import_shares(draft: ImportDraft, keys: SheetKeys, store: str | None, targets: Sequence[Entry]) -> None:
    """A folder for each target, in the account of the store; of a section that asks for none, every key is
    dropped.
    """
    remote = [entry for entry in targets if entry.get("kind") != "local"]
    names: list[str] = []
    for share in _SHARES:
        table = keys.inner(share.section)
        why = _obstacle(draft, table, share.section, store, remote)
        if why or store is None:
            for key in _KEYS:
                table.dropped(f"{share.section}-{key}", why)
            continue
        name = _folder_name(table, share.section, names)
        names.append(name)
        _add(draft, table, share, store, name, remote)


def _obstacle(
    draft: ImportDraft, table: SheetKeys, section: str, store: str | None, targets: Sequence[Entry]
) -> str:
    """Why there is no folder; empty where there is one."""
    if not table.text(f"{section}-share-path") or (table.text(f"{section}-action") or "none") == "none":
        return "no folder is mounted or copied"
    if not targets:
        return "no target that is carried runs anywhere but here"
    if draft.stores.get(store or "", {}).get("account") is None:
        return "the share is in an account, and the storage that XT uses names none"
    return ""


def _folder_name(table: SheetKeys, section: str, taken: Sequence[str]) -> str:
    """As the local folder is called; both may be called the same."""
    local = (table.text(f"{section}-local") or "").rstrip("/").rpartition("/")[2]
    name = safe_name(local or section)
    return f"{name}-{section}" if name in taken else name


def _add(
    draft: ImportDraft, table: SheetKeys, share: _Share, store: str, name: str, targets: Sequence[Entry]
) -> None:
    section = share.section
    shared = draft.add_store(f"{store}-{section}", {**draft.stores[store], "url": f"az://{share.container}"})
    path = name_user(draft, (table.text(f"{section}-share-path") or "").strip("/"))
    mode = "copy" if table.text(f"{section}-action") == "download" else "mount"
    # XT mounts read-only by default.
    may_only_read = mode == "mount" and not table.boolean(f"{section}-writable")
    read_only: Entry = {"read_only": True} if may_only_read else {}
    for target in targets:
        _inner(target, "folders")[name] = {"store": shared, "path": path, "mode": mode, **read_only}
        # XT's scripts find their data by it; one that the file itself sets stays.
        _inner(_inner(target, "job"), "env").setdefault(share.variable, f"./{name}")
    _report(table, share, name, mode)
    draft.note(
        f"XT's share for `{section}` is taken to be the container `{share.container}`; its release of 2020 "
        f"had `{share.older}`: check `stores.{shared}.url`"
    )


def _inner(entry: Entry, key: str) -> Entry:
    found = entry.setdefault(key, {})
    assert isinstance(found, dict)
    return found


def _report(table: SheetKeys, share: _Share, name: str, mode: str) -> None:
    section = share.section
    to = f"targets.*.folders.{name}"
    table.carried(f"{section}-share-path", f"{to}.path")
    table.changed(f"{section}-action", f"{to}.mode", f"`{mode}`")
    table.changed(f"{section}-local", to, f"the name of the folder; `${share.variable}` is `./{name}`")
    table.dropped(f"{section}-upload", f"`gofer u {name}` sends it")
    table.dropped(f"{section}-omit", "`gofer u --exclude` leaves files out")
    writable = f"{section}-writable"
    if mode == "copy":
        table.dropped(writable, "a copy is the run's own, and nothing of it goes back to the store")
    elif table.boolean(writable):
        table.dropped(writable, "true is gofer's default")
    else:
        table.changed(writable, f"{to}.read_only", "`true`: runs may only read it")
