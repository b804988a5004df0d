"""A job of the VS Code toolkit as a target, a store and a job file; both of its formats."""

from __future__ import annotations

import re
from pathlib import Path

from gofer.errors import ConfigError, UsageError
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import read_foreign
from gofer.importers.keys import Sheet, SheetKeys
from gofer.importers.sweeps import read_sweep
from gofer.importers.toolkit_copies import copied_data, link_lines
from gofer.importers.toolkit_data import place_rows, runs_facts, take_data, take_runs

# The one cluster of the toolkit's first format that was no virtual cluster.
_ITP = "itplabrr1cl1"
_ARM = re.compile(
    r"/subscriptions/([^/]+)/resourcegroups/([^/]+)/providers/[^/]+/workspaces/([^/]+)/?", re.IGNORECASE
)
_LONGEST_NAME = 200
_STRICT = "lines of one script; the first that fails ends it, where the toolkit went on"


def take_toolkit(draft: ImportDraft, path: Path, name: str | None = None) -> str:
    """The target that the file's cluster becomes; its script becomes the job file of the same name."""
    keys = draft.sheet(Sheet(read_foreign(path)))
    cluster, experiment = keys.inner("cluster"), keys.inner("experiment")
    called = name or cluster.text("virtual_cluster") or path.stem
    target = safe_name(called)
    entry: Entry = {"kind": "azureml", **_cluster(draft, cluster, target)}
    entry |= _image(keys.inner("environment"), target, is_itp=entry["platform"] == "itp")
    if experiment.text("name"):
        entry["experiment"] = experiment.text("name") or ""
        experiment.carried("name", f"targets.{target}.experiment")
    entry |= _identity(experiment, target)
    job = _job(draft, keys, target, _free_job(draft, experiment.text("job_name") or path.stem))
    data = take_data(draft, keys, target)
    final = draft.number_target(target, {**entry, **data, **runs_facts(draft, keys)})
    keys.sheet.retarget(f"targets.{target}", f"targets.{final}")
    job["target"] = final
    draft.targets[final] = {**entry, **take_runs(draft, keys, final), **data}
    draft.settle(final)
    return final


def _free_job(draft: ImportDraft, wanted: str) -> str:
    # A name may hold `${{column}}` of a sweep.
    plain = safe_name(re.sub(r"\$\{\{[^}]*\}\}", "", wanted).strip("-_. "))
    name, number = plain, 2
    while name in draft.jobs:
        name, number = f"{plain}-{number}", number + 1
    return name


def _cluster(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
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
        draft.note_target(
            lambda name: (
                f"the file does not say which subscription and resource group `{name}` is in: add "
                f"`subscription_id`, `resource_group`{'' if workspace else ' and `workspace`'} to the target"
            )
        )
    cluster = keys.text("virtual_cluster")
    is_itp = cluster == _ITP
    entry["platform"] = "itp" if is_itp else "singularity"
    if cluster:
        ours = "compute" if is_itp else "virtual_cluster"
        entry[ours] = cluster
        keys.carried("virtual_cluster", f"targets.{target}.{ours}")
    return entry | (_itp_node(draft, keys, target) if is_itp else _instance(keys, target))


def _itp_node(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
    keys.dropped("sla_tier", "the cluster has no tiers")
    gpus = keys.number("instance_type")
    if gpus is None:
        return {}
    keys.changed("instance_type", f"targets.{target}.gpus_per_node", "on this cluster it is a count of GPUs")
    if gpus:
        draft.note_target(lambda name: _without_instance_type(name, gpus))
    return {"gpus_per_node": gpus}


def _without_instance_type(target: str, gpus: int) -> str:
    return (
        f"the toolkit asked for {gpus} GPUs by their number. A job now names an instance type of the "
        "Kubernetes compute, which the file does not, and Azure's default one has no GPU: `gofer target "
        f"show {target}` lists the compute's; put one with {gpus} GPUs as `instance_type:` of the target"
    )


def _instance(keys: SheetKeys, target: str) -> Entry:
    entry: Entry = {}
    instance, tier = keys.text("instance_type"), keys.text("sla_tier")
    if instance:
        entry["instance_type"] = instance.rpartition(".")[2]
        prefixed = "the service's own prefix is left out" if "." in instance else ""
        keys.shared("instance_type", f"targets.{target}.instance_type", prefixed)
    if tier:
        entry["sla"] = tier.lower()
        keys.changed("sla_tier", f"targets.{target}.sla", "in lower case")
    for key in ("location", "locations"):
        if keys.texts(key):
            entry["locations"] = [*keys.texts(key)]
            keys.carried(key, f"targets.{target}.locations")
    return entry


def _image(keys: SheetKeys, target: str, *, is_itp: bool) -> Entry:
    """What the command runs in: an image of a registry, else what the service itself has by that name."""
    key = "docker_image" if "docker_image" in keys else "image"
    text = (keys.text(key) or "").strip()
    if not text:
        return {}
    if "/" in text:
        keys.carried(key, f"targets.{target}.image")
        return {"image": text}
    if not is_itp:
        keys.changed(key, f"targets.{target}.image_version", "one of Singularity's own images")
        return {"image_version": text}
    keys.changed(key, f"targets.{target}.environment", "a curated environment, not an image")
    return {"environment": text if "@" in text or ":" in text else f"{text}@latest"}


def _identity(keys: SheetKeys, target: str) -> Entry:
    """The identity that jobs opened storage by; a bare name does not say which one is meant."""
    entry: Entry = {}
    for key in ("managed_id", "managed_identity"):
        text = keys.text(key) or ""
        if text.startswith("/subscriptions/"):
            entry["identity"] = text
            keys.carried(key, f"targets.{target}.identity")
        elif text:
            keys.dropped(
                key, "a name is not enough: put its resource id or client id as the target's `identity`"
            )
    return entry


def _job(draft: ImportDraft, keys: SheetKeys, target: str, name: str) -> Entry:
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
        job["name"] = label[:_LONGEST_NAME]
        shorter = f"its first {_LONGEST_NAME} characters" if len(label) > _LONGEST_NAME else ""
        experiment.shared("job_name", f"{to}: name", shorter)
    _sweep(experiment, job, to)
    script = place_rows(_lines(experiment, "script"), keys)
    if script:
        job["script"] = _with_columns(script, bool(job.get("each") or job.get("array")))
        experiment.changed("script", f"{to}: script", _STRICT)
    setup = place_rows(_lines(keys.inner("environment"), "setup_script"), keys)
    if setup:
        keys.inner("environment").changed("setup_script", f"{to}: setup", _STRICT)
    setup = link_lines(copied_data(keys)) + setup
    if setup:
        job["setup"] = setup
    return job


def _lines(keys: SheetKeys, key: str) -> str:
    text = "\n".join(keys.texts(key)).strip("\n")
    return f"{text}\n" if text.strip() else ""


def _with_columns(script: str, sweeps: bool) -> str:
    """`${{column}}`, a value of a sweep, is written `{column}`."""
    if sweeps:
        script = re.sub(r"(?<!\$)(?<!\{)\{([A-Za-z_][\w.-]*)\}(?!\})", r"{{\1}}", script)
    return re.sub(r"\$\{\{\s*([^{}]*?)\s*\}\}", r"{\1}", script)


def _sweep(keys: SheetKeys, job: Entry, to: str) -> None:
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
