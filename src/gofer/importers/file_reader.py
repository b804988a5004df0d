"""Reads files of other tools into one draft, each file with the importer of its format.

The keys of a file tell its format, because people may change the name of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from gofer.config.yaml.document import display
from gofer.config.yaml.nodes import Items, Node, Table
from gofer.errors import ConfigError
from gofer.importers.accounts import import_account, import_workspace
from gofer.importers.act import import_act
from gofer.importers.aml import base_of, stands_alone
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import read_foreign
from gofer.importers.philly import GROUP, import_clusters, import_philly
from gofer.importers.target_store import add_project_stores
from gofer.importers.toolkit import import_toolkit
from gofer.importers.xt import import_xt
from gofer.importers.xt_sections import DROPPED as SECTIONS


class Format(StrEnum):
    """The formats, in the order of their import: a file that names other files comes before them, and the
    list of clusters before the settings of each.
    """

    ACT = "a cluster of ACT or quickdetection"
    XT = "XT's settings"
    TOOLKIT = "a job of the VS Code toolkit"
    CLUSTERS = "quickdetection's list of Philly clusters"
    PHILLY = "quickdetection's Philly settings"
    ACCOUNT = "a blob account"
    WORKSPACE = "an Azure ML workspace"


_ACT = ("config_param", "aml_config", "compute_target", "_base_", "aks_compute", "zip_options")
_XT = ("external-services", "compute-targets", "xt-services", "dockers", "setups")
# Sections whose names others use too: one alone says nothing.
_XT_SECTIONS = (*SECTIONS, "general", "code", "data", "model", "aml-options", "boxes")
_PHILLY = ("vc", "blob_mount_info", "blob_mount_point")


def recognise(document: Table) -> Format:
    """The format of the file; ConfigError, with the known formats, for any other file."""
    keys = document.entries
    if any(key in keys for key in _XT):
        return Format.XT
    if isinstance(keys.get("cluster"), Table) and isinstance(keys.get("experiment"), Table):
        return Format.TOOLKIT
    if any(key in keys for key in _PHILLY):
        return Format.PHILLY
    if any(key in keys for key in _ACT):
        return Format.ACT
    return _small(keys, document)


def _small(keys: Mapping[str, Node], document: Table) -> Format:
    if "account_name" in keys or "container_name" in keys:
        return Format.ACCOUNT
    if "subscription_id" in keys and ("workspace_name" in keys or "resource_group" in keys):
        return Format.WORKSPACE
    if isinstance(keys.get("clusters"), Items):
        return Format.CLUSTERS
    if sum(key in keys for key in _XT_SECTIONS) > 1:
        return Format.XT
    raise ConfigError(
        "this is no file of a tool that gofer knows",
        where=document.place.where,
        hint=f"gofer reads {'; '.join(Format)}",
    )


def import_files(draft: ImportDraft, files: Sequence[Path], name: str | None = None) -> None:
    """Import every file once; `name` is the name of the target if the files describe only one.

    Files that others name come in with them. XT's files are one, a later over an earlier. ConfigError, with
    file and line, for what cannot be read.
    """
    documents = {path: read_foreign(path) for path in dict.fromkeys(files)}
    for path in _mere_bases(documents):
        del documents[path]
        draft.mention(f"`{display(path)}` is no target by itself; it comes with the files that build on it")
    formats = {path: recognise(document) for path, document in documents.items()}
    for kind in Format:
        paths = [path for path in formats if formats[path] is kind]
        if kind is Format.XT and paths:
            import_xt(draft, paths, name)
        elif kind is Format.CLUSTERS:
            _import_each(draft, kind, paths, _group_name(name, is_alone=len(formats) == len(paths)))
        elif kind is not Format.XT:
            _import_each(draft, kind, paths, name)
    add_project_stores(draft)


def _group_name(name: str | None, *, is_alone: bool) -> str:
    """The name of the group of targets: with other files, `name` is that of a target."""
    if is_alone:
        return name or GROUP
    return f"{GROUP}-clusters" if name == GROUP else GROUP


def _mere_bases(documents: Mapping[Path, Table]) -> list[Path]:
    """The files that other files build on and that name no place to run."""
    bases = {base_of(path, document) for path, document in documents.items()}
    return [path for path in documents if path in bases and not stands_alone(path, read_foreign)]


def _import_each(draft: ImportDraft, kind: Format, paths: Sequence[Path], name: str | None) -> None:
    for path in paths:
        if path not in draft.taken:
            _TAKERS[kind](draft, path, name)


def _workspace(draft: ImportDraft, path: Path, name: str | None) -> None:
    """Import a workspace without a cluster, as a target that the person completes."""
    target = safe_name(name or path.parent.name or "aml")
    entry: Entry = {"kind": "azureml", **import_workspace(draft, path, target)}
    draft.add_target(target, entry)
    draft.note(f"the target `{target}` has no compute yet: add `compute`, or `virtual_cluster`")


_TAKERS: dict[Format, Callable[[ImportDraft, Path, str | None], object]] = {
    Format.ACT: import_act,
    Format.TOOLKIT: import_toolkit,
    Format.PHILLY: import_philly,
    Format.CLUSTERS: lambda draft, path, group: import_clusters(draft, path, group or GROUP),
    Format.ACCOUNT: lambda draft, path, _: import_account(draft, path),
    Format.WORKSPACE: _workspace,
}
