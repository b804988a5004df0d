"""What the nodes are told of a run, or of a whole array. Pure, and without secrets."""

from __future__ import annotations

from gofer.backends.azureml.options import AzureOptions
from gofer.backends.node_request import NodeRequest, common_fields
from gofer.model.run import RunRecord


class AzureRequest(NodeRequest, frozen=True, kw_only=True):
    """Row i of an array has the values `rows[i]` of `columns`; a single run has no rows.

    What the nodes write is always carried to a store: `store`, a folder that they see, is None.
    """

    store: str | None = None
    scratch: str | None = None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_request(record: RunRecord, options: AzureOptions) -> AzureRequest:
    """The same request for the same record and target."""
    array = record.array
    common = common_fields(record, takes_nodes_back=takes_nodes_back(options))
    return AzureRequest(
        **{**common, "time_limit_s": limit_s(record, options)},
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
    )


def limit_s(record: RunRecord, options: AzureOptions) -> float | None:
    """The job's own limit, or the target's."""
    return record.job.time_limit_s if record.job.time_limit_s is not None else options.time


def takes_nodes_back(options: AzureOptions) -> bool:
    """By what the target says of itself, which is not whether its compute is one of low priority."""
    if options.platform == "singularity":
        return options.tier != "premium"
    return bool(options.preemptible)
