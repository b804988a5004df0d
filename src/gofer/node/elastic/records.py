"""What the agents of a run tell each other, and what the lease in the store says. Frozen data.

Each record is JSON on the wire and in the store. Fields that are missing get their defaults, and fields that
are not known are ignored, so that agents of different versions understand each other.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

# How the ranks of one member ended: all with exit code 0, one with another, or stopped by their agent.
SUCCEEDED = "succeeded"
FAILED = "failed"
STOPPED = "stopped"


class MemberFacts(NamedTuple):
    """One agent that wants to take part. `word` is random, so a restarted agent is another member.

    `address` and `port` are where the agent listens. `rank_port` is a free port for the ranks of a
    generation in which this member is the first. `slot` is the place that the cluster gave to the agent.
    """

    word: str
    host: str = ""
    address: str = ""
    port: int = 0
    rank_port: int = 0
    gpus: int = 0
    slot: int = 0

    @property
    def name(self) -> str:
        """The member as messages name it."""
        return f"node {self.slot} on {self.host}" if self.host else f"node {self.slot}"


class Generation(NamedTuple):
    """A set of nodes that run together, in the order of their node numbers. Number 0, without members, stands
    for a run that has not begun. `began` is a time of day, in the records of a run's folder only.
    """

    number: int = 0
    members: Sequence[MemberFacts] = ()
    port: int = 0
    why: str = ""
    began: float = 0.0

    @property
    def words(self) -> list[str]:
        return [one.word for one in self.members]

    def encode(self) -> Dict[str, Any]:
        return {**self._asdict(), "members": [one._asdict() for one in self.members]}


class LeaderLease(NamedTuple):
    """The one object by which the agents of a run agree. It changes by conditional writes only.

    The leader is the member `word`, and it listens at `address` and `port`. `epoch` is higher for each next
    leader. `renewals` changes with each write. `failures` counts the generations that the command ended.
    `over` is the outcome of the run; None before its end.
    """

    word: str
    epoch: int
    renewals: int
    address: str
    port: int
    generation: Generation = Generation()
    failures: int = 0
    over: Optional[Dict[str, Any]] = None

    def encode(self) -> Dict[str, Any]:
        return {**self._asdict(), "generation": self.generation.encode()}


class RankResult(NamedTuple):
    """How the ranks of one member ended in a generation. `restart`: a rank asked for a new generation."""

    generation: int
    state: str
    reason: Optional[str] = None
    detail: Optional[str] = None
    exit_code: Optional[int] = None
    restart: bool = False


class MemberBeat(NamedTuple):
    """A heartbeat of a member: its whole state. Beats may be lost or doubled, and the newest counts.

    `echo` is the number of the last order that the member received. `running` is the generation whose ranks
    run, `started` the last generation that was started, and `barred` the last that is never started any more.
    `boundary` is the last generation that has completed a checkpoint after a request. `leaving_s` is the
    notice that the cluster gave to the member. `farewell`: the member has nothing more to do.
    """

    facts: MemberFacts
    number: int
    epoch: int = 0
    echo: int = 0
    running: int = 0
    started: int = 0
    barred: int = 0
    boundary: int = 0
    result: Optional[RankResult] = None
    leaving_s: Optional[float] = None
    cancel: bool = False
    farewell: bool = False

    def encode(self) -> Dict[str, Any]:
        result = None if self.result is None else self.result._asdict()
        return {**self._asdict(), "facts": self.facts._asdict(), "result": result}


class Order(NamedTuple):
    """A heartbeat of the leader to one member: all that the leader wants of the member.

    `acknowledged` is the number of the last heartbeat that gives the member a licence. `stop` is the last
    generation that must not run, and `run` the generation that should. `asks_checkpoint` is the generation
    that should write a checkpoint. `waits` says why the member has no part in a generation.
    """

    number: int
    epoch: int
    acknowledged: int = 0
    stop: int = 0
    run: Optional[Generation] = None
    asks_checkpoint: int = 0
    waits: str = ""
    over: Optional[Dict[str, Any]] = None

    def encode(self) -> Dict[str, Any]:
        return {**self._asdict(), "run": None if self.run is None else self.run.encode()}


def decode_facts(value: Mapping[str, Any]) -> MemberFacts:
    """KeyError without `word`."""
    return MemberFacts(**_known(value, MemberFacts._fields))


def decode_generation(value: Mapping[str, Any]) -> Generation:
    members = tuple(decode_facts(one) for one in value.get("members") or ())
    return Generation(**{**_known(value, Generation._fields), "members": members})


def decode_lease(value: Mapping[str, Any]) -> LeaderLease:
    """KeyError or TypeError for a value that is no lease."""
    generation = decode_generation(value.get("generation") or {})
    return LeaderLease(**{**_known(value, LeaderLease._fields), "generation": generation})


def decode_beat(value: Mapping[str, Any]) -> MemberBeat:
    """KeyError or TypeError for a value that is no heartbeat."""
    result = value.get("result")
    found = _known(value, MemberBeat._fields)
    found["facts"] = decode_facts(value["facts"])
    found["result"] = None if result is None else RankResult(**_known(result, RankResult._fields))
    return MemberBeat(**found)


def decode_order(value: Mapping[str, Any]) -> Order:
    """KeyError or TypeError for a value that is no order."""
    run = value.get("run")
    return Order(**{**_known(value, Order._fields), "run": None if run is None else decode_generation(run)})


def _known(value: Mapping[str, Any], names: Sequence[str]) -> Dict[str, Any]:
    return {name: value[name] for name in names if name in value}
