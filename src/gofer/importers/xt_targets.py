"""`compute-targets` of XT's file, with the services, images, set-ups and boxes that they name."""

from __future__ import annotations

import re
from typing import NamedTuple

from gofer.errors import ConfigError
from gofer.importers.draft import Entry, ImportDraft, Value, safe_name
from gofer.importers.keys import SheetKeys
from gofer.importers.target_store import choose_store
from gofer.importers.xt_sections import SERVICES, TARGET, name_user
from gofer.text import quote_command

_CLOUD = ("aml", "itp", "singularity")
_HERE = ("localhost", "127.0.0.1", "local")
_TOGETHER = "one run over all of them; without `--distributed`, XT ran the script on each by itself"
# What XT takes when the target says nothing.
_SLA = "basic"
# `ND40_v2g1` is a part of a machine with one GPU; other names do not tell.
_GPUS = re.compile(r"(?<=\d)g(\d{1,3})$")


class XtContext(NamedTuple):
    """What all targets share: the file, the store that holds their runs, the defaults of their jobs."""

    file: SheetKeys
    store: str | None
    experiment: str | None
    job: Entry
    name: str | None


def import_targets(draft: ImportDraft, around: XtContext) -> list[Entry]:
    """Every target of a kind that there is; of the others every key is dropped, with the reason."""
    taken: list[Entry] = []
    targets = around.file.inner("compute-targets")
    records = targets.records()
    if around.name is not None and len(records) != 1:
        raise ConfigError(
            f"the file has {len(records)} targets, and `--as` names one",
            where=targets.place.where,
            hint="leave `--as` out: each target keeps its name",
        )
    for written, keys in records.items():
        name = around.name or written
        service = keys.text("service") or ""
        kind = _type(around.file, service)
        if kind == "pool":
            entry = _pool(draft, keys, around.file, safe_name(name))
        elif kind in _CLOUD:
            entry = _cloud(draft, keys, around, safe_name(name), kind)
        else:
            targets.dropped(written, _no_kind(kind, service))
            continue
        if entry:
            _job(draft, keys, around, safe_name(name), entry)
            draft.add_target(safe_name(name), entry)
            taken.append(entry)
    return taken


def _no_kind(kind: str, service: str) -> str:
    if not service:
        return "it names no `service`; XT takes a target whole, from the nearest file that has it"
    return SERVICES.get(kind, f"the service `{service}` is not among `external-services`")


def _type(file: SheetKeys, service: str) -> str:
    if service == "pool":
        return "pool"
    services = file.inner("external-services")
    return (services.inner(service).text("type") or "") if services.is_table(service) else ""


def _pool(draft: ImportDraft, keys: SheetKeys, file: SheetKeys, target: str) -> Entry:
    """Boxes become machines reached by SSH; the one that is this machine, the kind `local`."""
    boxes = file.inner("boxes")
    names = keys.texts("boxes")
    hosts: list[Value] = []
    for name in names:
        box = boxes.inner(name) if boxes.is_table(name) else None
        address = name_user(draft, (box.text("address") if box else None) or name)
        hosts.append(address)
        if box:
            to = f"targets.{target}" + ("" if address in _HERE else ".hosts")
            box.shared("address", to)
            box.dropped("max-runs", "a machine's GPUs say how many runs it takes")
            box.dropped("actions", "folders of a target are there in each of its runs")
            box.dropped("setup", "the target's set-up is used")
            box.dropped("os", "gofer runs on Linux")
            box.dropped("box-class", TARGET["box-class"])
    if "docker" in keys:
        keys.dropped("docker", "gofer runs a command on this kind of target without a container")
    if not hosts or all(str(host) in _HERE for host in hosts):
        keys.changed("service", f"targets.{target}.kind", "`local`")
        keys.changed("boxes", f"targets.{target}.kind", "this machine")
        return {"kind": "local"}
    keys.changed("service", f"targets.{target}.kind", "`ssh`")
    keys.carried("boxes", f"targets.{target}.hosts")
    return {"kind": "ssh", "hosts": hosts}


def _cloud(draft: ImportDraft, keys: SheetKeys, around: XtContext, target: str, kind: str) -> Entry:
    service = keys.text("service") or ""
    record = around.file.inner("external-services").inner(service)
    entry: Entry = {"kind": "azureml"}
    if kind != "aml":
        entry["platform"] = kind
        record.shared("type", f"targets.{target}.platform")
    else:
        record.shared("type", f"targets.{target}.kind", "`azureml`")
    for key, ours in (("subscription-id", "subscription_id"), ("resource-group", "resource_group")):
        text = record.text(key)
        if text is not None:
            entry[ours] = text
            record.shared(key, f"targets.{target}.{ours}")
    entry["workspace"] = service
    keys.carried("service", f"targets.{target}.workspace")
    _where(keys, entry, target)
    if kind == "singularity" and "sla" not in entry:
        entry["sla"] = _SLA
        draft.mention(f"the target `{target}` has XT's own tier, `{_SLA}`, since it names none")
    _gpus(draft, keys, entry, target)
    _image(draft, keys, entry, target)
    if around.experiment:
        entry["experiment"] = around.experiment
        around.file.inner("general").shared("experiment", f"targets.{target}.experiment")
    return entry


# What XT's keys are on each platform; the others mean nothing there.
_WHERE = {
    "aml": {"compute": "compute"},
    "itp": {"compute": "compute", "vm-size": "instance_type"},
    "singularity": {
        "compute": "virtual_cluster",
        "vm-size": "instance_type",
        "sla": "sla",
        "location": "locations",
        "locations": "locations",
    },
}


def _where(keys: SheetKeys, entry: Entry, target: str) -> None:
    known = _WHERE[str(entry.get("platform", "aml"))]
    for key in _WHERE["singularity"]:
        ours = known.get(key)
        if ours is None:
            keys.dropped(key, "the compute itself decides it")
        elif ours == "locations":
            regions: list[Value] = [one for one in keys.texts(key) if one.strip()]
            if regions:
                entry[ours] = regions
                keys.carried(key, f"targets.{target}.{ours}")
        elif text := keys.text(key):
            entry[ours] = text.lower() if ours == "sla" else text
            keys.carried(key, f"targets.{target}.{ours}")
            if entry[ours] != text:
                keys.changed(key, f"targets.{target}.{ours}", "in lower case")
    _preemption(keys, entry, target)


def _preemption(keys: SheetKeys, entry: Entry, target: str) -> None:
    if not keys.boolean("low-pri"):
        keys.dropped("low-pri", "false is gofer's default")
    elif entry.get("platform") == "itp":
        entry["preemptible"] = True
        keys.carried("low-pri", f"targets.{target}.preemptible")
    elif entry.get("platform") == "singularity":
        keys.dropped("low-pri", "`sla` says it")
    else:
        keys.dropped(
            "low-pri", "the compute itself decides it; `job: {sync: ['*']}` keeps outputs of nodes taken back"
        )


def _gpus(draft: ImportDraft, keys: SheetKeys, entry: Entry, target: str) -> None:
    """The GPUs of a node, where the name of the instance type says how many there are."""
    found = _GPUS.search(str(entry.get("instance_type", "")))
    if found:
        entry["gpus_per_node"] = int(found[1])
        keys.shared("vm-size", f"targets.{target}.gpus_per_node")
        return
    shown = "its instance types with their GPUs" if "platform" in entry else "what its machines are"
    draft.mention(
        f"the target `{target}` does not say how many GPUs a node has, and `-n` needs it: "
        f"`gofer target show {target}` lists {shown}; set `targets.{target}.gpus_per_node`"
    )


def _image(draft: ImportDraft, keys: SheetKeys, entry: Entry, target: str) -> None:
    name = keys.text("docker")
    if name is not None and name != "none" and safe_name(name) in draft.dockers:
        entry["image"] = safe_name(name)
        keys.carried("docker", f"targets.{target}.image")
        return
    if name is not None:
        keys.dropped("docker", f"there is no image `{name}` under `dockers`")
    if entry.get("platform") == "singularity":
        draft.mention(
            f"the target `{target}` names no image: its runs get Singularity's default image, as with XT; "
            f"`targets.{target}.image_version` names another of Singularity's own"
        )


def _job(draft: ImportDraft, keys: SheetKeys, around: XtContext, target: str, entry: Entry) -> None:
    job: Entry = dict(around.job)
    nodes = keys.number("nodes")
    if nodes is not None:
        job["nodes"] = nodes
        said = "" if nodes < 2 else _TOGETHER
        keys.shared("nodes", f"targets.{target}.job.nodes", said)
    name = keys.text("setup")
    setups = around.file.inner("setups")
    if name is not None and setups.is_table(name):
        script = _setup(setups.inner(name), target)
        keys.changed("setup", f"targets.{target}.job.setup", "the lines that it stands for")
        if script:
            job["setup"] = script
    elif name is not None:
        keys.dropped("setup", f"there is no set-up `{name}` under `setups`")
    for key, why in TARGET.items():
        keys.dropped(key, why)
    env = draft.environment(around.file.inner("general").inner("env-vars"), target)
    if env:
        job["env"] = {name: name_user(draft, str(value)) for name, value in env.items()}
    if around.store and entry["kind"] != "local":
        entry["store"] = around.store
    elif entry["kind"] == "azureml":
        entry |= choose_store(draft, target, None).entry
    if job:
        entry["job"] = job


def _setup(keys: SheetKeys, target: str) -> str:
    """The lines of a set-up in the order of XT: what comes before the packages, they, what comes after."""
    to = f"targets.{target}.job.setup"
    other = keys.inner("other-cmds") if keys.is_table("other-cmds") else None
    lines = [*_lines(keys, "pre-cmds", to), *_lines(other, "pre", to)]
    for key, command in (("conda-packages", "conda install -y"), ("pip-packages", "python -m pip install")):
        # `name==*` is XT's way to say that any version will do.
        packages = [one.removesuffix("==*") for one in keys.texts(key)]
        if packages:
            lines.append(f"{command} {quote_command(packages)}")
            keys.shared(key, to, f"`{command} …`")
        else:
            keys.dropped(key, "the list is empty")
    lines += [*_lines(keys, "post-cmds", to), *_lines(other, "post", to), *_lines(keys, "other-cmds", to)]
    keys.dropped(
        "activate", "a set-up has its own shell; `conda run -n NAME CMD` runs a command in an environment"
    )
    keys.dropped("python-path", "set `PYTHONPATH` in `job.env`")
    return "".join(f"{line}\n" for line in lines)


def _lines(keys: SheetKeys | None, key: str, to: str) -> list[str]:
    """The commands under the key; none when it holds a map, or the table is not there."""
    if keys is None or key not in keys or keys.is_table(key):
        return []
    keys.shared(key, to)
    return keys.texts(key)
