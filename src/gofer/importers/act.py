"""`aux_data/aml/NAME.yaml` of ACT and quickdetection as a target of the kind `azureml`.

The files that it names are imported too: those it builds on (`_base_`), the workspace file and the account
files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gofer.config.yaml.document import display
from gofer.core.launch import MPIRUN
from gofer.errors import ConfigError
from gofer.importers.accounts import import_account, import_workspace, missing_file, runs_store, workspace
from gofer.importers.aml import DEFAULT_NAME, join_chain, own_keys, read_chain
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import named_file, project_of, read_foreign
from gofer.importers.keys import Finding, KeyOutcome, Sheet, SheetKeys
from gofer.importers.node_setup import COMPILE_ARGS, node_setup
from gofer.importers.zip_patterns import ZipPatterns, read_zip_options

PLATFORMS = ("aml", "itp", "singularity")
COMPILE_SCRIPT = "compile.aml.sh"
# What ACT takes when the file says nothing.
_INSTANCE_TYPE = "ND96amr_A100_v4"
_SLA = "premium"
_GPUS_PER_NODE = 4
# The service's own PyTorch, for files that want no image of their own.
_PYTORCH = "acpt-pytorch-2.2-cuda12.1@latest"
# What ACT never sent, of that what a project may well hold; mapped folders are left out by themselves.
_NEVER_SENT = ("/assets/", "/output/", "/data/", "/visualization/", "wandb/", "*.so", "*.o")

_DROPPED = {
    "datastore_name": "gofer makes and finds datastores itself",
    "use_cli_auth": "gofer uses `az login`, a managed identity or a service principal, whichever there is",
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


def import_act(draft: ImportDraft, path: Path, name: str | None = None) -> str:
    """The target that the file becomes, called `name` or as the file is; ConfigError for a wrong value."""
    keys = draft.sheet(_sheet(path))
    target = safe_name(name or path.stem)
    root = project_of(path, draft.folder)
    entry: Entry = {"kind": "azureml"}
    entry |= _workspace(draft, keys, target, root)
    entry |= _place(draft, keys, target)
    folders = import_folders(draft, keys, target, root)
    entry |= _image(draft, keys, target, str(entry.get("platform", PLATFORMS[0])))
    for key, ours in (("experiment_name", "experiment"), ("interpreter_path", "python")):
        value = keys.text(key)
        if value is not None:
            entry[ours] = value
            keys.carried(key, f"targets.{target}.{ours}")
    gpus = keys.number("gpu_per_node")
    entry["gpus_per_node"] = _GPUS_PER_NODE if gpus is None else gpus
    keys.carried("gpu_per_node", f"targets.{target}.gpus_per_node")
    entry |= folders
    entry["ignore"] = [*_ignore(draft, keys, target)]
    # Without `-n` the older tool asks for one whole node.
    entry["job"] = {"gpus": entry["gpus_per_node"], **_job(draft, keys, target)}
    _drop_rest(keys)
    draft.add_target(target, entry)
    if path.stem == DEFAULT_NAME and draft.default_target is None:
        draft.default_target = target
    return target


def _drop_rest(keys: SheetKeys) -> None:
    for key, why in _DROPPED.items():
        if key in keys:
            keys.dropped(key, why)


def _sheet(path: Path) -> Sheet:
    chain = read_chain(path, read_foreign)
    tables = own_keys(chain)
    sheet = Sheet(join_chain(tables), tuple(tables[1:]))
    for one in chain:
        base = one.entries.get("_base_")
        if base is not None:
            sheet.add(Finding(base.place, "_base_", KeyOutcome.CHANGED, why="both files are joined here"))
    return sheet


def _workspace(draft: ImportDraft, keys: SheetKeys, target: str, root: Path) -> Entry:
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
    return import_workspace(draft, path, target)


def _place(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
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
            draft.mention(
                f"the target `{target}` has the older tool's own instance type or tier where none was"
            )
    else:
        for key in ("singularity_instance_type", "singularity_sla_tier"):
            keys.dropped(key, f"it means nothing on the platform `{platform}`")
    if "preemption_allowed" in keys and platform != "itp":
        keys.dropped("preemption_allowed", f"it means nothing on the platform `{platform}`")
    elif keys.boolean("preemption_allowed"):
        entry["preemptible"] = True
        keys.carried("preemption_allowed", f"targets.{target}.preemptible")
    elif "preemption_allowed" in keys:
        keys.dropped("preemption_allowed", "false is gofer's default")
    return entry


def _carry(keys: SheetKeys, key: str, to: str, why: str) -> None:
    if why:
        keys.changed(key, to, why)
    else:
        keys.carried(key, to)


def _platform(keys: SheetKeys, target: str) -> str:
    legacy = keys.boolean("aks_compute")
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
        keys.dropped("aks_compute", "false is gofer's default")
    return platform


def _image(draft: ImportDraft, keys: SheetKeys, target: str, platform: str) -> Entry:
    docker = keys.inner("docker")
    why = "the service pulls images with the workspace's own login; attach the registry to the workspace"
    docker.dropped("username", why)
    if "password" in docker:
        draft.forget(docker, "password", why)
    image = docker.text("image")
    if keys.boolean("use_custom_docker") is False:
        return _own_environment(keys, docker, target, platform)
    if "use_custom_docker" in keys:
        keys.dropped("use_custom_docker", "a run has the image that `docker.image` names")
    if image is None:
        docker.dropped("address", "no image is named")
        return {}
    to = f"targets.{target}.image"
    docker.carried("image", to)
    address = (docker.text("address") or "").strip().removeprefix("https://").strip("/")
    if not address or image.startswith(f"{address}/"):
        docker.dropped("address", "the image's name begins with it" if address else "it is empty")
    elif platform == "singularity":
        docker.dropped("address", "Singularity takes an image by its whole name, with the registry before it")
    else:
        image = f"{address}/{image}"
        docker.changed("address", to, "it stands before the image's name")
        docker.changed("image", to, "the address of its registry stands before it")
    return {"image": image}


def _own_environment(keys: SheetKeys, docker: SheetKeys, target: str, platform: str) -> Entry:
    """What the command runs in where the file wants no image of its own: the service's own PyTorch."""
    for key in ("image", "address"):
        docker.dropped(key, "`use_custom_docker: false` says that it is not used")
    if platform == "singularity":
        keys.dropped(
            "use_custom_docker", "without an image a run has Singularity's default one, with PyTorch"
        )
        return {}
    why = f"the service's own PyTorch; `gofer image list -t {target}` lists its other environments"
    keys.changed("use_custom_docker", f"targets.{target}.environment", why)
    return {"environment": _PYTORCH}


def _job(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
    job: Entry = {"rank_variables": MPIRUN}
    many = keys.boolean("multi_process")
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
    python = keys.text("interpreter_path")
    if python:
        job["packages"] = "none"  # its commands name that Python, which does not see an environment of ours
    draft.add_setup(target, job, node_setup(COMPILE_SCRIPT, python, as_root=True))
    return job


def _ignore(draft: ImportDraft, keys: SheetKeys, target: str) -> list[str]:
    """The files that are not sent with the code: those the tool never sent, and those the file leaves out."""
    to = f"targets.{target}.ignore"
    draft.mention(
        f"`{to}` begins with what ACT itself never sent: {', '.join(_NEVER_SENT)}; take out what runs need"
    )
    words = keys.texts("zip_options")
    found = read_zip_options(words)
    if found.ignore:
        keys.changed("zip_options", to, _about(found))
    elif words:
        keys.dropped("zip_options", _about(found))
    return [*dict.fromkeys([*_NEVER_SENT, *found.ignore])]


def _about(found: ZipPatterns) -> str:
    """How the lines differ from the options that they were made of."""
    said = ["patterns as in `.gitignore`"] if found.ignore else []
    names = [one for one in found.ignore if not one.endswith(("/", "*"))]
    if names:
        said.append(f"folders that are called as {_ticked(names)} stay out too")
    if found.unsure:
        said.append(f"{_ticked(found.unsure)} may leave out less than it did")
    if found.files:
        said.append(
            f"to zip {_ticked(found.files)} is a file's name and no folder's, so nothing stands for it"
        )
    if found.others:
        said.append(f"no archive is made, so {_ticked([' '.join(found.others)])} is left out")
    return "; ".join(said)


def _ticked(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


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
