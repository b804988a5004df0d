"""`xt_config.yaml` of XT: its layers, its services and storage, its images. `xt_targets`
reads the rest.

XT merges its files in layers, factory below person below project, section by section. In a section, a name of
the nearer file replaces everything that the farther file has under that name: a target or an image's record
is replaced completely, and so is a list or `env-vars`. The first public release, of 2020, had one file over
its own defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from gofer.config.yaml.nodes import Node, Table, is_null
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import named_file, read_foreign
from gofer.importers.keys import Sheet, SheetKeys
from gofer.importers.xt_sections import AML, CODE, DROPPED, GENERAL, SERVICES, name_user
from gofer.importers.xt_targets import XtContext, import_targets

_DIGEST = re.compile(r"(sha256:)?[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9][^\s@]*")
# What stands in XT's file where its key vault holds the value.
VAULT = "$vault"
_SIGNS_IN = "`username` and `password` say whether to sign in"

# Runs of gofer lie beside those of XT in the same container, and apart from them.
_PREFIX = "gofer"
_WORKSPACE = "ws1"
_FILE_STORE = "store-file"
# Services that targets name, and their keys.
_CLOUD = ("type", "subscription-id", "resource-group")
_USED = {
    "registry": ("type", "login-server", "username", "login"),
    **dict.fromkeys(("aml", "singularity", "itp"), _CLOUD),
}
_UNUSED = {"registry": "no image that is carried is in it"}
_SECRET = ("key", "password", "mongo-connection-string", "connection-string")


def join_layers(tables: Sequence[Table]) -> Table:
    """One table out of several, the nearest first; its place is that of the nearest."""
    return reduce(_over, reversed(tables))


def _over(lower: Table, upper: Table) -> Table:
    sections = dict(lower.entries)
    for name, section in upper.entries.items():
        sections[name] = _joined(sections.get(name), section)
    return Table(sections, upper.place)


def _joined(lower: Node | None, upper: Node) -> Node:
    """One section; an empty one says nothing, and leaves what is below it."""
    if lower is not None and is_null(upper):
        return lower
    if not isinstance(lower, Table) or not isinstance(upper, Table):
        return upper
    return Table({**lower.entries, **upper.entries}, upper.place)


def import_dockers(draft: ImportDraft, file: SheetKeys) -> None:
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
        keys.dropped("registry", "an empty one means Docker Hub, which is gofer's default")
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


def import_xt(draft: ImportDraft, paths: Sequence[Path], name: str | None = None) -> None:
    """Every target of the files that gofer has a kind for, and every storage service as a store.

    The files are layers: a later one overrides those before it.
    """
    tables = [read_foreign(path) for path in reversed(paths)]
    keys = draft.sheet(Sheet(join_layers(tables), tuple(tables[1:])))
    _services(draft, keys)
    used = _stores(keys)
    store = _chosen_storage(draft, keys, used)
    job = _job_defaults(keys)
    experiment = name_user(draft, keys.inner("general").text("experiment") or "")
    _drop_rest(draft, keys)
    targets = import_targets(draft, XtContext(keys, store, experiment, job, name))
    import_shares(draft, keys, store, targets)
    _default_target(draft, [keys.inner("xt-services"), *([used] if used else [])])


def _default_target(draft: ImportDraft, holders: Sequence[SheetKeys]) -> None:
    """Take the default target from the first holder that names one: newer builds have it beside the store."""
    for holder in holders:
        chosen = holder.text("target")
        if not chosen:
            continue
        if safe_name(chosen) in draft.targets or chosen == "local":
            draft.default_target = safe_name(chosen)
            holder.carried("target", "target")
        else:
            holder.dropped("target", f"the target `{chosen}` is not carried")
        return


def _services(draft: ImportDraft, keys: SheetKeys) -> None:
    for name, record in keys.inner("external-services").records().items():
        kind = record.text("type") or ""
        if kind == "storage":
            _storage(draft, record, name, keys.inner("general").text("workspace") or _WORKSPACE)
            continue
        why = SERVICES.get(kind, _UNUSED.get(kind, "no target that is carried uses it"))
        for key in record:
            if key in _SECRET and not (record.text(key) or "").startswith(VAULT):
                draft.forget(record, key, why)
            elif key in _SECRET or kind in SERVICES or key in _USED.get(kind, ()):
                record.dropped(key, why)


def _storage(draft: ImportDraft, record: SheetKeys, name: str, container: str) -> None:
    """One storage service. A key that is in a vault becomes a reference to a secret."""
    if record.text("provider") == _FILE_STORE:
        path = record.text("path") or "~/.xt/file_store"
        store = draft.add_store(name, {"url": (named_file(draft.folder, path) / _PREFIX).as_uri()})
        record.changed("path", f"stores.{store}.url", "a folder of its own beside XT's")
    else:
        account = record.text("name") or name
        url = name_user(draft, f"az://{container}/{_PREFIX}")
        store = draft.add_store(name, {"url": url, "account": account})
        record.carried("name", f"stores.{store}.account")
        record.dropped("path", "it means nothing for this provider")
        draft.note(
            f"the store `{store}` is the container of XT's workspace `{container}`, below `{_PREFIX}/`"
        )
        entry = draft.stores[store]
        if (record.text("key") or "").startswith(VAULT):
            entry["key"] = draft.ask(f"{store}-key", "XT's key vault")
            record.changed("key", f"stores.{store}.key", f"`gofer secret set {store}-key` keeps it")
        elif "key" in record:
            entry["key"] = draft.keep(record, "key", f"{store}-key", f"stores.{store}.key")
    record.changed("type", f"stores.{store}", "a store")
    record.changed("provider", f"stores.{store}.url", "the address says it")


def _stores(keys: SheetKeys) -> SheetKeys | None:
    """The record of the store that is in use, as newer builds have them; None without."""
    services, used = keys.inner("xt-services"), None
    for name, record in keys.inner("stores").records().items():
        if name == (services.text("store") or keys.text("store")):
            used = record
        record.changed("storage", f"stores.{record.text('storage')}", "the storage itself is the store")
        for key, why in (("database", SERVICES["database"]), ("vault", SERVICES["vault"])):
            record.dropped(key, why)
        record.dropped("target", "`target` at the top of gofer.yaml names the default")
        record.dropped("track-storage", "`gofer du` says what lies in a store")
    return used


def _chosen_storage(draft: ImportDraft, keys: SheetKeys, used: SheetKeys | None) -> str | None:
    """The storage that XT uses, by the older `xt-services` or the newer `store` and `stores`; else None."""
    services = keys.inner("xt-services")
    chosen = services.text("storage") or (used.text("storage") if used else None)
    store = safe_name(chosen) if chosen and safe_name(chosen) in draft.stores else None
    for table, key in ((services, "store"), (services, "storage"), (SheetKeys(keys.sheet), "store")):
        if table.is_table(key):
            continue
        if store:
            table.changed(key, "targets.*.store", "each target names its store")
        else:
            table.dropped(key, "it names no storage of `external-services`; give each target a `store`")
    for key in ("mongo", "vault", "database"):
        services.dropped(key, SERVICES[key])
    return store


def _job_defaults(keys: SheetKeys) -> Entry:
    options = keys.inner("aml-options")
    for key, why in AML.items():
        options.dropped(key, why)
    job: Entry = {}
    seconds = options.number("max-seconds")
    if seconds:
        job["time_limit"] = f"{seconds}s"
        options.carried("max-seconds", "targets.*.job.time_limit")
    kind = options.text("distributed-training")
    if kind == "mpi":
        # Only a distributed run was started with it, and gofer's default gives ranks the same variables.
        options.dropped(
            "distributed-training", "gofer gives MPI's variables without it; `--launcher mpi` is real MPI"
        )
    elif kind is not None:
        options.dropped("distributed-training", "gofer gives each rank the variables of PyTorch")
    return job


def _drop_rest(draft: ImportDraft, keys: SheetKeys) -> None:
    for key, why in DROPPED.items():
        if key in keys:
            keys.dropped(key, why)
    general, code = keys.inner("general"), keys.inner("code")
    for key, why in GENERAL.items():
        general.dropped(key, why)
    general.changed("workspace", "stores", "the container of the store")
    general.dropped("experiment", "no target that is carried has an experiment")
    general.dropped("env-vars", "no target is carried")
    for key, why in CODE.items():
        code.dropped(key, why)
    omitted = code.texts("code-omit")
    draft.add_ignore(omitted)
    code.carried("code-omit", "ignore")
    for name in ("boxes", "setups"):
        if name in keys:
            keys.dropped(name, "no target that is carried uses it")
    import_dockers(draft, keys)


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
