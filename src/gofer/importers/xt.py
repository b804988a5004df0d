"""`xt_config.yaml` of XT: its targets with what they name, its storage, its shares of data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import named_file, read_foreign
from gofer.importers.keys import Sheet, SheetKeys
from gofer.importers.xt_dockers import VAULT, take_dockers
from gofer.importers.xt_layers import join_layers
from gofer.importers.xt_sections import AML, CODE, DROPPED, GENERAL, SERVICES
from gofer.importers.xt_shares import take_shares
from gofer.importers.xt_targets import XtContext, take_targets
from gofer.importers.xt_words import name_user

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


def take_xt(draft: ImportDraft, paths: Sequence[Path], name: str | None = None) -> None:
    """Every target of the files that gofer has a kind for, and every storage service as a store.

    The files are one, a later one over those before it, as XT has it: see `xt_layers`.
    """
    tables = [read_foreign(path) for path in reversed(paths)]
    keys = draft.sheet(Sheet(join_layers(tables), tuple(tables[1:])))
    _services(draft, keys)
    used = _stores(keys)
    store = _chosen_storage(draft, keys, used)
    job = _job_defaults(keys)
    experiment = name_user(draft, keys.inner("general").text("experiment") or "")
    _drop_rest(draft, keys)
    targets = take_targets(draft, XtContext(keys, store, experiment, job, name))
    take_shares(draft, keys, store, targets)
    _default_target(draft, [keys.inner("xt-services"), *([used] if used else [])])


def _default_target(draft: ImportDraft, holders: Sequence[SheetKeys]) -> None:
    """The first that is named: newer builds have it with the store that is in use."""
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
    take_dockers(draft, keys)
