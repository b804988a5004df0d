"""What a run with a changing number of nodes is allowed to do, and the times that its agents keep to."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence

# When nodes that arrive become part of a run that trains.
JOIN_AT_CHECKPOINT = "checkpoint"
JOIN_NOW = "now"
JOIN_NEVER = "never"


class ElasticRules(NamedTuple):
    """The rules of one run. `size` is the number of nodes that a person wishes with `gofer scale`; None for
    as many as there are.

    Nodes that arrive join a training run at its next checkpoint, at most once in `join_every_s`. After
    `join_patience_s` without a checkpoint they join anyway; None waits for the checkpoint without limit.
    `settle_s` is how long the first generation waits for another node once it has enough. `retries` and
    `retry_on` are those of the job: a changed membership counts as no failure.
    """

    min_nodes: int
    max_nodes: int
    size: Optional[int] = None
    join: str = JOIN_AT_CHECKPOINT
    join_every_s: float = 300.0
    join_patience_s: Optional[float] = 900.0
    settle_s: float = 10.0
    leave_grace_s: float = 5.0
    retries: int = 0
    retry_on: Sequence[str] = ()

    @property
    def most(self) -> int:
        """The number of nodes that the run takes when there are enough."""
        wished = self.max_nodes if self.size is None else self.size
        return max(self.min_nodes, min(wished, self.max_nodes))

    def with_wish(self, wish: Mapping[str, Any]) -> ElasticRules:
        """The rules after `gofer scale`: `wish` has `size`, or `min` and `max`."""
        lowest = int(wish.get("min") or self.min_nodes)
        highest = max(lowest, int(wish.get("max") or self.max_nodes))
        size = wish.get("size")
        return self._replace(min_nodes=lowest, max_nodes=highest, size=None if size is None else int(size))


class ElasticTiming(NamedTuple):
    """The times of the protocol, in seconds. The package's docstring says why two generations never overlap.

    A member and the leader send a heartbeat every `beat_s`. The ranks of a member are killed `licence_s`
    after the member sent the last heartbeat that the leader has acknowledged. The leader counts a member as
    gone after `silent_s` without a heartbeat, and as fenced `margin_s` later. The leader renews its lease
    every `renew_s`. It acknowledges heartbeats only if it has renewed the lease within `authority_s`, or if
    it has heard from every member of the generation within `in_touch_s` and renewed it within
    `store_patience_s`.

    Another agent takes the lease after it has seen it unchanged for `unchanged_s`; `newcomer_s` if it is not
    a member of the present generation. It then waits `takeover_s` for members that it cannot reach;
    `stranger_s` if it is not a member of the present generation.
    """

    beat_s: float = 1.0
    licence_s: float = 4.0
    silent_s: float = 5.0
    margin_s: float = 2.0
    renew_s: float = 2.0
    authority_s: float = 4.0
    in_touch_s: float = 3.5
    doubt_s: float = 1.5
    unchanged_s: float = 5.0
    newcomer_s: float = 30.0
    takeover_s: float = 5.0
    store_patience_s: float = 120.0
    stranger_s: float = 126.0
    read_s: float = 0.5
    dial_s: float = 1.0
    consequence_s: float = 10.0
    farewell_s: float = 30.0
