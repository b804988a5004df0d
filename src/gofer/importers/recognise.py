"""Which tool a file is of, judged by its keys; the file's name says nothing that a person may not change."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gofer.config.nodes import Items, Node, Table
from gofer.errors import ConfigError
from gofer.importers.xt_sections import DROPPED as SECTIONS


class Format(StrEnum):
    """The files that can be read, in the order in which they are taken in: who names others comes first."""

    ACT = "a cluster of ACT or quickdetection"
    XT = "XT's settings"
    TOOLKIT = "a job of the VS Code toolkit"
    PHILLY = "quickdetection's Philly settings"
    CLUSTERS = "quickdetection's list of Philly clusters"
    ACCOUNT = "a blob account"
    WORKSPACE = "an Azure ML workspace"


_ACT = ("config_param", "aml_config", "compute_target", "_base_", "aks_compute", "zip_options")
_XT = ("external-services", "compute-targets", "xt-services", "dockers", "setups")
# Sections whose names others use too: one alone says nothing.
_XT_SECTIONS = (*SECTIONS, "general", "code", "data", "model", "aml-options", "boxes")
_PHILLY = ("vc", "blob_mount_info", "blob_mount_point")


def recognise(document: Table) -> Format:
    """ConfigError with what is known when the file is of no tool that is."""
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
