"""Check a virtual cluster of Singularity: that it exists, its instance types, its quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gofer.backends.azureml import names
from gofer.backends.azureml.checks.target_resources import listed, names_in, nearest, options_of, workspace_of
from gofer.backends.azureml.facts import series_of
from gofer.errors import GoferError
from gofer.model.checks import Check, Status

if TYPE_CHECKING:
    from gofer.backends.azureml.checks.login import Access
    from gofer.config.targets import Target


def virtual_cluster_checks(access: Access, target: Target) -> Iterator[Check]:
    if options_of(target).platform != "singularity":
        return
    name = str(options_of(target).virtual_cluster)
    what = f"target {target.name} virtual cluster"
    path = workspace_of(target).virtual_cluster(name)
    found = access.arm.find(path, names.VIRTUAL_CLUSTERS_API)
    if found is None:
        known = names_in(access, path.rpartition("/")[0], names.VIRTUAL_CLUSTERS_API)
        short = name.rpartition("/")[2]
        words = f"there is no virtual cluster `{short}` at {path.rpartition('/providers/')[0]}"
        yield Check(what, Status.FAIL, words, nearest(short, known, "virtual clusters"))
        return
    yield Check(what, Status.OK, name.rpartition("/")[2])
    yield from _image(target)
    quotas = ((found.get("properties") or {}).get("managed") or {}).get("quotas") or {}
    wanted = tuple(options_of(target).locations or ()) or tuple(quotas)
    types = _series_of_types(access, path.split("/")[2], [one for one in wanted if one in quotas])
    instance_type = str(options_of(target).instance_type).removeprefix("Singularity.")
    if types and instance_type not in types:
        words = f"there is no instance type `{instance_type}` in {', '.join(wanted)}"
        hint = nearest(instance_type, sorted(types), "instance types")
        yield Check(f"target {target.name} instance type", Status.FAIL, words, hint)
    yield from _quota(target, quotas, wanted, types.get(instance_type, ""))


def _image(target: Target) -> Iterator[Check]:
    """Name the image of a target that names none."""
    if any(getattr(options_of(target), key) for key in ("image", "environment", "image_version")):
        return
    words = "the target names no image: its runs get Singularity's default image, which `--dry-run` names"
    yield Check(f"target {target.name} image", Status.OK, words)


def _series_of_types(access: Access, subscription: str, locations: list[str]) -> dict[str, str]:
    """The series of each instance type in these locations; empty where the service does not list them."""
    start = f"/subscriptions/{subscription}/providers/Microsoft.MachineLearningServices/locations"
    found: dict[str, str] = {}
    for location in locations:
        try:
            rows = listed(access, f"{start}/{location}/instancetypeseries", names.VIRTUAL_CLUSTERS_API)
        except GoferError:
            continue
        for row in rows:
            for one in row.get("instanceTypes") or [row]:
                found[str(one.get("name", ""))] = series_of(one, row)
    return found


def _quota(target: Target, quotas: dict[str, Any], wanted: tuple[str, ...], series: str) -> Iterator[Check]:
    """Check the quota of the target's tier in its locations, for the series of its instance type if known."""
    tier = str(options_of(target).sla or "premium")
    what = f"target {target.name} quota"
    unknown = [location for location in wanted if location not in quotas]
    if unknown:
        words = f"the virtual cluster is not in {', '.join(f'`{location}`' for location in unknown)}"
        yield Check(what, Status.FAIL, words, nearest(unknown[0], list(quotas), "locations"))
        return
    rows = [row for location in wanted for row in quotas[location].get("limits") or ()]
    rows = [row for row in rows if row.get("id") == series] or rows
    mine = [row for row in rows if str(row.get("slaTier", "")).lower() == tier]
    limit = sum(int(row.get("limit") or 0) for row in mine)
    used = sum(int(row.get("used") or 0) for row in mine)
    usage = f"{used} of {limit} used in the tier {tier}, {', '.join(wanted)}"
    if limit == 0:
        others = sorted({str(row.get("slaTier", "")).lower() for row in rows if int(row.get("limit") or 0)})
        hint = f"`sla: {others[0]}` has quota" if others else "ask the owner of the virtual cluster for quota"
        yield Check(what, Status.FAIL, f"there is no quota: {usage}", hint)
    elif used >= limit:
        yield Check(
            what, Status.WARN, f"all quota is in use: {usage}", "runs will wait; another tier may not"
        )
    else:
        yield Check(what, Status.OK, usage)
