"""The plan of a local run: the body that goes into this machine's queue. Pure."""

from __future__ import annotations

import msgspec

from gofer.backends.node_request import NodeRequest, common_fields
from gofer.core import output_word
from gofer.model.ids import row_id
from gofer.model.run import RunRecord
from gofer.node.packages.package_files import AUTO


class QueueRequest(NodeRequest, frozen=True, kw_only=True):
    """What the queue's supervisor and agents need of a run or of a whole array. Holds no secret."""

    store: str
    remote: str | None
    span: tuple[int, ...] | None
    gpus: int
    leased: bool
    block: int
    priority: int


class LocalPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The request, and the rows of an array as (run id, row, values)."""

    record: RunRecord
    request: QueueRequest

    def runs(self) -> list[tuple[str, int | None, dict[str, str] | None]]:
        """What the queue gets: one run, or one for each row."""
        array = self.record.array
        if array is None:
            return [(self.record.id, None, None)]
        return [
            (row_id(self.record.id, index), index, dict(zip(array.columns, row, strict=True)))
            for index, row in enumerate(array.rows)
        ]

    def render(self) -> str:
        """The request as JSON; for an array also the command of its first row."""
        body = msgspec.to_builtins(self.request)
        array = self.record.array
        if array is not None:
            values = dict(zip(array.columns, array.rows[0], strict=True))
            body["array"] = {
                "rows": len(array.rows),
                "first": {"args": values, "command": output_word.show(self.request.command, values)},
            }
        return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()


def make_plan(
    record: RunRecord,
    *,
    store: str,
    remote: str | None,
    gpus: int,
    block: int,
    leased: bool,
    packages: str = AUTO,
) -> LocalPlan:
    """The same plan for the same record and target.

    `store` is the folder the run writes to; where that is not the store itself, `remote` is the store's URL.
    `leased` GPUs are shared with other queues of the machine. `packages` holds where the job does not choose.
    """
    request = QueueRequest(
        **common_fields(record, packages=packages),
        store=store,
        remote=remote,
        span=None,
        gpus=gpus,
        leased=leased and record.layout.gpus_per_node > 0,
        block=block,
        priority=record.job.priority,
    )
    return LocalPlan(record=record, request=request)
