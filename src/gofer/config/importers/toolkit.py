"""A job of the VS Code toolkit as a target, a store and a job file; both of its formats.

1.x keeps an account with its key in the file (`storage`); 2.x names datastores of the workspace (`io`).
"""

from __future__ import annotations

import re
from pathlib import Path

from gofer.config.importers.accounts import blob_store
from gofer.config.importers.draft import Draft, Entry, Value, free_name, safe_name
from gofer.config.importers.foreign import read_foreign
from gofer.config.importers.keys import Keys, Sheet
from gofer.config.importers.sweeps import read_sweep
from gofer.errors import ConfigError, UsageError

# The one cluster of the toolkit's first format that was no virtual cluster.
_ITP = "itplabrr1cl1"
_ARM = re.compile(
    r"/subscriptions/([^/]+)/resourcegroups/([^/]+)/providers/[^/]+/workspaces/([^/]+)/?", re.IGNORECASE
)
_MODES = {"ro_mount": "mount", "rw_mount": "mount", "download": "copy", "upload": "upload"}
_STRICT = "lines of one script; the first that fails ends it, where the toolkit went on"


def take_toolkit(draft: Draft, path: Path, name: str | None = None) -> str:
    """The target that the file's cluster becomes; its script becomes the job file of the same name."""
    keys = draft.sheet(Sheet(read_foreign(path)))
    cluster, experiment = keys.inner("cluster"), keys.inner("experiment")
    called = name or cluster.text("virtual_cluster") or path.stem
    target = safe_name(called)
    entry: Entry = {"kind": "azureml", **_cluster(draft, cluster, target)}
    image_key = "docker_image" if "docker_image" in keys.inner("environment") else "image"
    for table, key, ours in (
        (keys.inner("environment"), image_key, "image"),
        (experiment, "name", "experiment"),
    ):
        text = table.text(key)
        if text:
            entry[ours] = text
            table.carried(key, f"targets.{target}.{ours}")
    job = _job(draft, keys, target, _free_job(draft, experiment.text("job_name") or path.stem))
    entry |= _old_storage(draft, keys, target) if keys.is_table("storage") else _io(draft, keys, target)
    final = free_name(target, entry, draft.targets)
    keys.sheet.retarget(f"targets.{target}", f"targets.{final}")
    job["target"] = final
    draft.targets[final] = entry
    return final


def _free_job(draft: Draft, wanted: str) -> str:
    # A name may hold `${{column}}` of a sweep.
    plain = safe_name(re.sub(r"\$\{\{[^}]*\}\}", "", wanted).strip("-_. "))
    name, number = plain, 2
    while name in draft.jobs:
        name, number = f"{plain}-{number}", number + 1
    return name


def _cluster(draft: Draft, keys: Keys, target: str) -> Entry:
    entry: Entry = {}
    workspace = keys.text("workspace") or ""
    arm = _ARM.fullmatch(workspace)
    if arm:
        entry = {"subscription_id": arm[1], "resource_group": arm[2], "workspace": arm[3]}
        keys.changed("workspace", f"targets.{target}.workspace", "its id is written as its three parts")
    elif workspace:
        entry = {"workspace": workspace}
        keys.carried("workspace", f"targets.{target}.workspace")
    if not arm:
        draft.note(
            f"the file does not say which subscription and resource group `{target}` is in: add "
            f"`subscription_id`, `resource_group`{'' if workspace else ' and `workspace`'} to the target"
        )
    cluster = keys.text("virtual_cluster")
    is_itp = cluster == _ITP
    if cluster:
        entry["platform"] = "itp" if is_itp else "singularity"
        ours = "compute" if is_itp else "virtual_cluster"
        entry[ours] = cluster
        keys.carried("virtual_cluster", f"targets.{target}.{ours}")
    return entry | (_itp_node(keys, target) if is_itp else _instance(keys, target))


def _itp_node(keys: Keys, target: str) -> Entry:
    keys.dropped("sla_tier", "the cluster has no tiers")
    gpus = keys.number("instance_type")
    if gpus is None:
        return {}
    keys.changed("instance_type", f"targets.{target}.gpus_per_node", "on this cluster it is a count of GPUs")
    return {"gpus_per_node": gpus}


def _instance(keys: Keys, target: str) -> Entry:
    entry: Entry = {}
    instance, tier, locations = keys.text("instance_type"), keys.text("sla_tier"), keys.texts("locations")
    if instance:
        entry["instance_type"] = instance.rpartition(".")[2]
        keys.carried("instance_type", f"targets.{target}.instance_type")
    if tier:
        entry["sla"] = tier.lower()
        keys.changed("sla_tier", f"targets.{target}.sla", "in lower case")
    if locations:
        entry["locations"] = [*locations]
        keys.carried("locations", f"targets.{target}.locations")
    return entry


def _job(draft: Draft, keys: Keys, target: str, name: str) -> Entry:
    """The job file, in the draft already; `1` process on each node, as the toolkit starts them."""
    experiment, cluster = keys.inner("experiment"), keys.inner("cluster")
    job: Entry = {"target": target, "multi_process": False}
    draft.jobs[name] = job
    to = f"jobs/{name}.yaml"
    nodes = cluster.number("node_count")
    if nodes is not None:
        job["nodes"] = nodes
        cluster.carried("node_count", f"{to}: nodes")
    label = experiment.text("job_name")
    if label:
        job["name"] = label[:200]
        experiment.carried("job_name", f"{to}: name")
    _sweep(experiment, job, to)
    script = _lines(experiment, "script")
    if script:
        job["script"] = _with_folders(script, keys, bool(job.get("each") or job.get("array")))
        experiment.changed("script", f"{to}: script", _STRICT)
    setup = _lines(keys.inner("environment"), "setup_script")
    if setup:
        job["setup"] = setup
        keys.inner("environment").changed("setup_script", f"{to}: setup", _STRICT)
    if "managed_identity" in experiment:
        experiment.dropped("managed_identity", "name it as the target's `identity`, where the kind has one")
    return job


def _lines(keys: Keys, key: str) -> str:
    text = "\n".join(keys.texts(key)).strip("\n")
    return f"{text}\n" if text.strip() else ""


def _with_folders(script: str, keys: Keys, sweeps: bool) -> str:
    """`${{row}}` is the folder `./row` here; `${{column}}`, a value of a sweep, is written `{column}`."""
    rows = {row.text("name") for row in keys.rows("io")}

    def replaced(match: re.Match[str]) -> str:
        word = match[1].strip()
        return f"./{safe_name(word)}" if word in rows else f"{{{word}}}"

    if sweeps:
        script = re.sub(r"(?<!\$)(?<!\{)\{([A-Za-z_][\w.-]*)\}(?!\})", r"{{\1}}", script)
    return re.sub(r"\$\{\{([^{}]*)\}\}", replaced, script)


def _sweep(keys: Keys, job: Entry, to: str) -> None:
    lines = [line for line in keys.texts("arg_sweep") if line.strip()]
    if not lines:
        return
    try:
        sweep = read_sweep(lines)
    except UsageError as error:
        where = keys.where("arg_sweep")
        raise ConfigError(f"`experiment.arg_sweep`: {error.message}", where=where, hint=error.hint) from None
    if sweep.each:
        job["each"] = {name: [*values] for name, values in sweep.each.items()}
    if sweep.rows:
        job["array"] = [dict(row) for row in sweep.rows]
    if "name" in job:
        # A name is one for all rows, and its placeholders would stand in it as they are.
        job["name"] = re.sub(r"[-_ ]*\$\{\{[^}]*\}\}", "", str(job["name"])).strip() or to
        keys.changed("job_name", f"{to}: name", "one name for all rows; `gofer list` shows the values")
    keys.changed("arg_sweep", f"{to}: {'each' if sweep.each else 'array'}", "an array of runs")


def _io(draft: Draft, keys: Keys, target: str) -> Entry:
    """2.x: rows of inputs and outputs as folders; the file does not say where their datastores are."""
    folders: Entry = {}
    for row in keys.rows("io"):
        name, store = row.text("name"), row.text("datastore")
        if not name or not store or not draft.has_store(store):
            why = f"the file does not say where the datastore `{store}` is; add a store of that name first"
            for key in ("name", "datastore", "path", "mode"):
                row.dropped(key, why if name and store else "the row is not complete")
            draft.note(why if name and store else f"a row of `io` in `{row.place.where}` is not complete")
            continue
        name = safe_name(name)
        theirs = row.text("mode") or "rw_mount"
        mode = _MODES.get(theirs, "mount")
        folder: Entry = {"store": store, "path": (row.text("path") or "").strip("/") or "/", "mode": mode}
        if theirs == "ro_mount":
            folder["read_only"] = True
        folders[name] = folder
        for key, ours in (("name", ""), ("datastore", ".store"), ("path", ".path")):
            row.carried(key, f"targets.{target}.folders.{name}{ours}")
        words = f"`{mode}`, `read_only`" if theirs == "ro_mount" else f"`{mode}`"
        row.changed("mode", f"targets.{target}.folders.{name}.mode", words)
    sync = keys.inner("synchronization")
    sync.dropped("target", "gofer sends the code of each run to the target's store by itself")
    _ignore(draft, sync)
    return {"folders": folders} if folders else {}


def _old_storage(draft: Draft, keys: Keys, target: str) -> Entry:
    """1.x: an account, where the code lay and, with `copy_data`, the data to copy to the node."""
    storage, experiment = keys.inner("storage"), keys.inner("experiment")
    wanted = storage.text("datastore_name") or storage.text("account_name") or target
    store = blob_store(draft, storage, wanted)
    storage.changed("datastore_name", f"stores.{store}", "the name of the store")
    experiment.dropped("workdir", "a run works in a copy of its own code; `$GOFER_OUTPUT_DIR` is kept")
    experiment.dropped("sync_code", "gofer sends the code of each run to the target's store by itself")
    _ignore(draft, experiment)
    folders = _data(experiment, store, target) if experiment.truth("copy_data") else {}
    if not folders:
        for key in ("copy_data", "data_dir", "data_subdir"):
            experiment.dropped(key, "no data was copied")
    return {"store": store, **({"folders": folders} if folders else {})}


def _data(keys: Keys, store: str, target: str) -> Entry:
    base = (keys.text("data_dir") or "").strip("/")
    parts = [part.strip(" /") for part in (keys.text("data_subdir") or "").split(";")]
    paths = [f"{base}/{part}" for part in parts if part] or ([base] if base else [])
    folders: dict[str, Value] = {
        safe_name(path.rpartition("/")[2]): {"store": store, "path": path, "mode": "copy"} for path in paths
    }
    to = f"targets.{target}.folders"
    where = ", ".join(f"`./{name}`" for name in folders)
    keys.changed("copy_data", to, "`mode: copy`")
    keys.changed("data_dir", to, f"on the node it is {where} beside the code, and not below /tmp")
    keys.changed("data_subdir", to, f"each is a folder of its own: {where}")
    return folders


def _ignore(draft: Draft, keys: Keys) -> None:
    folders = [part.strip().strip("/") for part in (keys.text("ignore_dir") or "").split(";")]
    draft.add_ignore([f"{folder}/" for folder in folders if folder])
    keys.changed("ignore_dir", "ignore", "patterns as in `.gitignore`")
