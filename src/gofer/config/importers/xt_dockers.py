"""`dockers` of XT's file, with the registries that they name: they become `dockers:` of gofer's."""

from __future__ import annotations

import re

from gofer.config.importers.draft import Draft, Entry, safe_name
from gofer.config.importers.keys import Keys

_DIGEST = re.compile(r"(sha256:)?[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9][^\s@]*")


def take_dockers(draft: Draft, file: Keys) -> None:
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
        keys.dropped("login", "`username` and `password` say whether to sign in")
        draft.dockers[name] = entry


def _registry(draft: Draft, file: Keys, keys: Keys, name: str, entry: Entry) -> None:
    """The server of the service that the record names, and who pushes to it."""
    wanted = keys.text("registry")
    if wanted is None:
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
    record.carried("login-server", f"{to}.registry")
    record.changed("type", f"{to}.registry", "a registry is named by its server")
    user = record.text("username")
    if user is None:
        return
    entry["username"] = draft.inert(user)
    record.carried("username", f"{to}.username")
    if (record.text("password") or "").startswith("$vault"):
        secret = safe_name(f"{wanted}-password")
        entry["password"] = draft.ask(secret, "XT's key vault")
        record.changed("password", f"{to}.password", f"`gofer secret set {secret}` keeps it")
    elif "password" in record:
        entry["password"] = draft.keep(record, "password", f"{wanted}-password", f"{to}.password")


def _wrapping(keys: Keys, name: str, entry: Entry) -> None:
    digest, steps, wrap = keys.text("sha256"), keys.texts("post_sing_steps"), keys.truth("sing_wrap")
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
