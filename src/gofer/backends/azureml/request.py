"""The request that the nodes get for a run or for a whole array. Pure, and without secrets."""

from __future__ import annotations

from gofer.backends.azureml.options import AzureOptions
from gofer.backends.node_request import NodeRequest, common_fields
from gofer.model.run import RunRecord


class AzureRequest(NodeRequest, frozen=True, kw_only=True):
    """Row i of an array has the values `rows[i]` of `columns`; a single run has no rows.

    `store`, a folder that the nodes can see, is always None: the uploader of the nodes writes to the store.
    """

    store: str | None = None
    scratch: str | None = None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_request(record: RunRecord, options: AzureOptions) -> AzureRequest:
    """Make the request. Pure: equal for equal records and targets."""
    array = record.array
    common = common_fields(record, takes_nodes_back=takes_nodes_back(options))
    return AzureRequest(
        **{**common, "time_limit_s": limit_s(record, options)},
        columns=() if array is None else array.columns,
        rows=() if array is None else array.rows,
    )


def limit_s(record: RunRecord, options: AzureOptions) -> float | None:
    """The time limit of the job, or else that of the target."""
    return record.job.time_limit_s if record.job.time_limit_s is not None else options.time


def takes_nodes_back(options: AzureOptions) -> bool:
    """Whether the cluster may take nodes from a running job, according to the target's options.

    A low-priority compute can lose its nodes too, but the options do not say whether a compute is one.
    """
    if options.platform == "singularity":
        return options.tier != "premium"
    return bool(options.preemptible)
