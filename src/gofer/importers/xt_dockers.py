"""`dockers` of XT's file, with the registries that they name: they become `dockers:` of gofer's."""

from __future__ import annotations

import re

from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.keys import SheetKeys

_DIGEST = re.compile(r"(sha256:)?[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9][^\s@]*")
# What stands in XT's file where its key vault holds the value.
VAULT = "$vault"
_SIGNS_IN = "`username` and `password` say whether to sign in"


def take_dockers(draft: ImportDraft, file: SheetKeys) -> None:
    """Every record that names an image; call it when the services have been taken in."""
    for written, keys in file.inner("dockers").records().items():
        name = safe_name(written)
        image = keys.text("image") or ""
        if not _NAME.fullmatch(image):
            file.inner("dockers").dropped(written, "it names no image")
            continue
        entry: Entry = {"image": draft.inert(image)}
        keys.carried("image", f"dockers.{name}.image")
        _registry(draft, file, keys, name, entry)
        _wrapping(keys, name, entry)
        keys.dropped("login", _SIGNS_IN)
        draft.dockers[name] = entry


def _registry(draft: ImportDraft, file: SheetKeys, keys: SheetKeys, name: str, entry: Entry) -> None:
    """The server of the service that the record names, and who pushes to it."""
    wanted = keys.text("registry")
    if wanted is None:
        return
    if not wanted.strip():
        keys.dropped("registry", "an empty one is Docker Hub, which is meant unless told")
        return
    services = file.inner("external-services")
    record = services.inner(wanted) if services.is_table(wanted) else None
    server = (record.text("login-server") if record else None) or ""
    if record is None or not _NAME.fullmatch(server):
        keys.dropped("registry", f"there is no server of a registry `{wanted}` among `external-services`")
        return
    to = f"dockers.{name}"
    entry["registry"] = draft.inert(server)
    keys.changed("registry", f"{to}.registry", "the server itself")
    record.shared("login-server", f"{to}.registry")
    record.shared("type", f"{to}.registry", "a registry is named by its server")
    record.dropped("login", _SIGNS_IN)
    _login(draft, record, wanted, to, entry)


def _login(draft: ImportDraft, record: SheetKeys, registry: str, to: str, entry: Entry) -> None:
    user = record.text("username")
    if not user:
        record.dropped("password", "no `username` says whose it is")
        return
    entry["username"] = draft.inert(user)
    record.shared("username", f"{to}.username")
    if (record.text("password") or "").startswith(VAULT):
        secret = safe_name(f"{registry}-password")
        entry["password"] = draft.ask(secret, "XT's key vault")
        record.shared("password", f"{to}.password", f"`gofer secret set {secret}` keeps it")
    elif "password" in record:
        entry["password"] = draft.keep(record, "password", f"{registry}-password", f"{to}.password")


def _wrapping(keys: SheetKeys, name: str, entry: Entry) -> None:
    digest, steps, wrap = keys.text("sha256"), keys.texts("post_sing_steps"), keys.boolean("sing_wrap")
    if digest is not None and _DIGEST.fullmatch(digest):
        entry["sha256"] = digest.lower()
        keys.carried("sha256", f"dockers.{name}.sha256")
    elif digest is not None:
        keys.dropped("sha256", "it is no digest: 64 hexadecimal digits")
    if steps:
        entry["post_sing_steps"] = [*steps]
        keys.carried("post_sing_steps", f"dockers.{name}.post_sing_steps")
    elif "post_sing_steps" in keys:
        keys.dropped("post_sing_steps", "the list is empty")
    if wrap is not None:
        entry["sing_wrap"] = wrap
        keys.carried("sing_wrap", f"dockers.{name}.sing_wrap")
