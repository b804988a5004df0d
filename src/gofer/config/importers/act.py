"""`aux_data/aml/NAME.yaml` of ACT and quickdetection as a target of the kind `azureml`.

What it names comes with it: what it builds on (`_base_`), the workspace file and the account files.
"""

from __future__ import annotations

import os
from pathlib import Path

from gofer.config.document import display
from gofer.config.importers.accounts import (
    missing_file,
    runs_store,
    take_account,
    take_workspace,
    workspace,
)
from gofer.config.importers.aml import DEFAULT_NAME, join_chain, own_keys, read_chain
from gofer.config.importers.draft import Draft, Entry, safe_name
from gofer.config.importers.foreign import named_file, project_of, read_foreign
from gofer.config.importers.keys import Finding, Keys, Outcome, Sheet
from gofer.config.importers.node_setup import COMPILE_ARGS, node_setup
from gofer.config.importers.zip_patterns import read_zip_options
from gofer.errors import ConfigError

PLATFORMS = ("aml", "itp", "singularity")
COMPILE_SCRIPT = "compile.aml.sh"
# What ACT takes when the file says nothing.
_INSTANCE_TYPE = "ND96amr_A100_v4"
_SLA = "premium"
_GPUS_PER_NODE = 4
# What ACT never sent, of that what a project may well hold; mapped folders are left out by themselves.
_NEVER_SENT = ("/assets/", "/output/", "/data/", "/visualization/", "wandb/")

_DROPPED = {
    "datastore_name": "gofer makes and finds datastores itself",
    "use_cli_auth": "gofer uses `az login`, a managed identity or a service principal, whichever there is",
    "use_custom_docker": "a run always has an image; the service's own framework images are gone",
    "source_directory": "the older tool did not use it either",
    "entry_script": "gofer's agent takes its place",
    "with_log": "`gofer q` always fetches logs",
    "sleep_if_fail": "gofer ends a run that has ended; `gofer ssh` opens a shell while it runs",
    "sleep_if_succeed": "gofer ends a run that has ended; `gofer ssh` opens a shell while it runs",
    "elastic_num_gpu": "the service that grew and shrank runs is gone",
    "aks_compute_global_dispatch": "the service that chose a cluster is gone",
    "aks_compute_global_dispatch_arg": "the service that chose a cluster is gone",
    "unique_gjd_cluster": "the service that chose a cluster is gone",
    "is_ssh_scheduler": "it needs a part of the older tool; a target of the kind `ssh` does the same",
}
_IN_FOLDER = {
    "storage_type": "gofer reads blobs",
    "file_share": "gofer reads blobs, not file shares",
    "blob_cache_timeout": "gofer's mount has its own cache",
    "datastore_name": "gofer makes and finds datastores itself",
    "submit_with_url": "no address with a signature is part of a run",
}


def take_act(draft: Draft, path: Path, name: str | None = None) -> str:
    """The target that the file becomes, called `name` or as the file is; ConfigError for a wrong value."""
    keys = draft.sheet(_sheet(path))
    target = safe_name(name or path.stem)
    root = project_of(path, draft.folder)
    entry: Entry = {"kind": "azureml"}
    entry |= _workspace(draft, keys, target, root)
    entry |= _place(draft, keys, target)
    folders = _folders(draft, keys, target, root)
    entry |= _image(draft, keys, target)
    for key, ours in (("experiment_name", "experiment"), ("interpreter_path", "python")):
        value = keys.text(key)
        if value is not None:
            entry[ours] = value
            keys.carried(key, f"targets.{target}.{ours}")
    gpus = keys.number("gpu_per_node")
    entry["gpus_per_node"] = _GPUS_PER_NODE if gpus is None else gpus
    keys.carried("gpu_per_node", f"targets.{target}.gpus_per_node")
    entry |= folders
    # Without `-n` the older tool asks for one whole node.
    entry["job"] = {"gpus": entry["gpus_per_node"], **_job(draft, keys, target)}
    _ignore(draft, keys)
    _drop_rest(keys)
    draft.add_target(target, entry)
    if path.stem == DEFAULT_NAME and draft.default_target is None:
        draft.default_target = target
    return target


def _drop_rest(keys: Keys) -> None:
    for key, why in _DROPPED.items():
        if key in keys:
            keys.dropped(key, why)
    if "azure_blob_config_file" in keys:
        keys.changed("azure_blob_config_file", "stores", "the account of folders that name none")


def _sheet(path: Path) -> Sheet:
    chain = read_chain(path, read_foreign)
    tables = own_keys(chain)
    sheet = Sheet(join_chain(tables), tuple(tables[1:]))
    for one in chain:
        base = one.entries.get("_base_")
        if base is not None:
            sheet.add(Finding(base.place, "_base_", Outcome.CHANGED, why="both files are joined here"))
    return sheet


def _workspace(draft: Draft, keys: Keys, target: str, root: Path) -> Entry:
    if keys.is_table("aml_config"):
        return workspace(keys.inner("aml_config"), target)
    name = keys.text("aml_config")
    if name is None:
        return {}
    path = named_file(root, name)
    if not os.path.exists(path):
        keys.dropped("aml_config", missing_file(path))
        draft.note(f"the target `{target}` does not say which workspace it is in: {missing_file(path)}")
        return {}
    keys.changed("aml_config", f"targets.{target}.workspace", f"`{display(path)}` is read")
    return take_workspace(draft, path, target)


def _place(draft: Draft, keys: Keys, target: str) -> Entry:
    """The platform, and what on it."""
    platform = _platform(keys, target)
    entry: Entry = {} if platform == "aml" else {"platform": platform}
    compute = keys.text("compute_target")
    if compute is not None:
        ours = "virtual_cluster" if platform == "singularity" else "compute"
        entry[ours] = compute
        keys.carried("compute_target", f"targets.{target}.{ours}")
    given, tier = keys.text("singularity_instance_type"), keys.text("singularity_sla_tier")
    if platform == "singularity":
        entry["instance_type"] = (given or _INSTANCE_TYPE).rpartition(".")[2]
        entry["sla"] = (tier or _SLA).lower()
        why = "the service's own prefix is left out" if given and "." in given else ""
        _carry(keys, "singularity_instance_type", f"targets.{target}.instance_type", why)
        _carry(keys, "singularity_sla_tier", f"targets.{target}.sla", "in lower case")
        if not given or not tier:
            draft.note(f"the target `{target}` has the older tool's own instance type or tier where none was")
    else:
        for key in ("singularity_instance_type", "singularity_sla_tier"):
            keys.dropped(key, f"it means nothing on the platform `{platform}`")
    if "preemption_allowed" in keys and platform != "itp":
        keys.dropped("preemption_allowed", f"it means nothing on the platform `{platform}`")
    elif keys.truth("preemption_allowed"):
        entry["preemptible"] = True
        keys.carried("preemption_allowed", f"targets.{target}.preemptible")
    elif "preemption_allowed" in keys:
        keys.dropped("preemption_allowed", "false is what gofer does unless told")
    return entry


def _carry(keys: Keys, key: str, to: str, why: str) -> None:
    if why:
        keys.changed(key, to, why)
    else:
        keys.carried(key, to)


def _platform(keys: Keys, target: str) -> str:
    legacy = keys.truth("aks_compute")
    platform = keys.text("platform") or ("itp" if legacy else "aml")
    if platform not in PLATFORMS:
        raise ConfigError(
            f"there is no platform `{platform}`",
            where=keys.where("platform"),
            hint=f"the platforms are {', '.join(f'`{one}`' for one in PLATFORMS)}",
        )
    if "platform" in keys:
        _carry(keys, "platform", f"targets.{target}.platform", "the default" if platform == "aml" else "")
    if legacy:
        keys.changed("aks_compute", f"targets.{target}.platform", "`itp` says the same")
    elif legacy is not None:
        keys.dropped("aks_compute", "false is what gofer does unless told")
    return platform


def _image(draft: Draft, keys: Keys, target: str) -> Entry:
    docker = keys.inner("docker")
    why = "the service pulls images with the workspace's own login; attach the registry to the workspace"
    for key in ("address", "username", "password"):
        if key in docker:
            draft.forget(docker, key, why if key != "address" else "the image's name begins with it")
    image = docker.text("image")
    if image is None:
        return {}
    docker.carried("image", f"targets.{target}.image")
    if keys.truth("use_custom_docker") is False:
        docker.changed(
            "image", f"targets.{target}.image", "it is used now; the service's own images are gone"
        )
    return {"image": image}


def _folders(draft: Draft, keys: Keys, target: str, root: Path) -> Entry:
    """The store of the target, in the account that held its code, and its mapped folders."""
    params = keys.inner("config_param")
    legacy = keys.text("azure_blob_config_file")
    accounts, found, code = list[str](), dict[str, Entry](), None
    for key in params:
        if not params.is_table(key):
            continue
        one, name = params.inner(key), _folder_name(key)
        for unused, why in _IN_FOLDER.items():
            one.dropped(unused, why)
        account, why = _account(draft, one, f"config_param.{key}", legacy, root)
        if account is None:
            if name:
                draft.problems[target, name] = (why, one.place)
            continue
        one.changed("azure_blob_config_file", f"stores.{account}", "the account is a store")
        if key == "code_path":
            code = one.text("path")
            one.changed("path", f"targets.{target}.store", "gofer's own folder lies beside it")
            accounts.insert(0, account)
        elif name:
            found[name] = {"store": account, "path": (one.text("path") or "").strip("/") or "/"}
            one.carried("path", f"targets.{target}.folders.{name}.path")
            accounts.append(account)
    entry: Entry = {"store": runs_store(draft, accounts[0], code)} if accounts else {}
    if found:
        entry["folders"] = dict(found)
    return entry


def _folder_name(key: str) -> str | None:
    """`data_folder` maps the folder `data`."""
    name = key.removesuffix("_folder")
    return name if name and name != key else None


def _account(draft: Draft, keys: Keys, where: str, legacy: str | None, root: Path) -> tuple[str | None, str]:
    """The store of one value of `config_param`; None, and why, when it cannot be had."""
    named = keys.text("azure_blob_config_file") or legacy
    kind = keys.text("storage_type")
    store, why = None, f"`{where}` needs the key `azure_blob_config_file`"
    name = _folder_name(where.partition(".")[2])
    if name is not None and safe_name(name) != name:
        why = f"the folder `{name}` cannot stand beside the code of a run"
    elif kind not in (None, "blob"):
        why = f"`{where}` lies in a storage of the type `{kind}`, and gofer reads blobs only"
    elif named is not None:
        path = named_file(root, named)
        store, why = take_account(draft, path), missing_file(path)
        if store is None:
            draft.note(why)
    if store is None:
        for key in ("azure_blob_config_file", "path", *_IN_FOLDER):
            keys.dropped(key, why)
    return store, why


def _job(draft: Draft, keys: Keys, target: str) -> Entry:
    job: Entry = {}
    many = keys.truth("multi_process")
    if many is not None:
        job["multi_process"] = many
        keys.carried("multi_process", f"targets.{target}.job.multi_process")
    procs = keys.number("process_count_per_node")
    if procs is not None:
        job["procs"] = procs
        keys.carried("process_count_per_node", f"targets.{target}.job.procs")
    env = draft.environment(keys.inner("env"), target)
    if keys.text("compile_args"):
        env[COMPILE_ARGS] = keys.text("compile_args") or ""
        to = f"targets.{target}.job.env.{COMPILE_ARGS}"
        keys.changed("compile_args", to, f"`{COMPILE_SCRIPT}` gets it as its one argument")
    if env:
        job["env"] = env
    draft.add_setup(target, job, node_setup(COMPILE_SCRIPT, keys.text("interpreter_path"), as_root=True))
    return job


def _ignore(draft: Draft, keys: Keys) -> None:
    draft.add_ignore(_NEVER_SENT)
    words = keys.texts("zip_options")
    if not words:
        return
    found = read_zip_options(words)
    draft.add_ignore(found.ignore)
    why = "patterns as in `.gitignore`"
    if not found.exact:
        why += "; a `*` inside a pattern no longer matches across folders"
    if found.others:
        why += f"; no archive is made, so `{' '.join(found.others)}` is left out"
    keys.changed("zip_options", "ignore", why)
