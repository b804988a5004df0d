"""The plan of a run in the queue of a machine: the request that goes into the queue. Pure."""

from __future__ import annotations

import json

import msgspec

from gofer.backends.node_request import CommonRequest, common_fields
from gofer.core.command import output_word
from gofer.model.ids import row_id
from gofer.model.run import RunRecord
from gofer.node.packages.package_files import AUTO


class QueueRequest(CommonRequest, frozen=True, kw_only=True):
    """What the queue's supervisor and agents need to know of a run or a whole array. Holds no secret."""

    store: str
    remote: str | None
    span: tuple[int, ...] | None
    gpus: int
    leased: bool
    block: int
    priority: int


class QueuePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for one machine's queue. Pure data."""

    record: RunRecord
    request: QueueRequest

    def runs(self) -> list[tuple[str, int | None, dict[str, str] | None]]:
        """The entries for the queue, as (run id, row, values): one for a run, or one for each row of an
        array.
        """
        array = self.record.array
        if array is None:
            return [(self.record.id, None, None)]
        return [
            (row_id(self.record.id, index), index, dict(zip(array.columns, row, strict=True)))
            for index, row in enumerate(array.rows)
        ]

    def render(self) -> str:
        """The request as JSON; for an array, also the command of its first row."""
        body = msgspec.to_builtins(self.request)
        array = self.record.array
        if array is not None:
            values = dict(zip(array.columns, array.rows[0], strict=True))
            body["array"] = {
                "rows": len(array.rows),
                "first": {"args": values, "command": output_word.show(self.request.command, values)},
            }
        return json.dumps(body, indent=2, ensure_ascii=False)  # names that are not UTF-8 stay as they are


def make_plan(
    record: RunRecord,
    *,
    store: str,
    remote: str | None,
    gpus: int,
    block: int,
    leased: bool,
    packages: str = AUTO,
) -> QueuePlan:
    """Make the plan. Pure: equal for equal records and targets.

    `store` is the folder that the run writes to; where this is not the store itself, `remote` is the store's
    URL. `leased` GPUs are shared with the other queues of the machine. `packages` applies when the job does
    not choose.
    """
    request = QueueRequest(
        **common_fields(record, packages=packages),
        store=store,
        remote=remote,
        span=None,
        gpus=gpus,
        # A run without GPUs takes no lease, so it never waits for one.
        leased=leased and record.layout.gpus_per_node > 0,
        block=block,
        priority=record.job.priority,
    )
    return QueuePlan(record=record, request=request)
