"""What the pure parts of an elastic run ask their agent to do. The agent answers by calling them again."""

from __future__ import annotations

from typing import NamedTuple, Optional, Union

from gofer.node.elastic.records import Generation, LeaderLease, MemberBeat, Order


class ReadLease(NamedTuple):
    """Read the lease. The answer is `Participant.lease_read` or `store_failed`."""


class WriteLease(NamedTuple):
    """Write the lease if it has still the version that was read or written last; create it if none was.

    The answer is `Participant.lease_written`, `lease_conflict` or `store_failed`.
    """

    lease: LeaderLease


class ConnectLeader(NamedTuple):
    """Open a line to the leader. The answer is `Participant.connected` or `connect_failed`."""

    address: str
    port: int


class DisconnectLeader(NamedTuple):
    """Close the line to the leader, if there is one."""


class DialMember(NamedTuple):
    """Find out whether a member's agent still listens. The answer is `Participant.dialled`."""

    word: str
    address: str
    port: int


class SendBeat(NamedTuple):
    """Send a heartbeat to the leader."""

    beat: MemberBeat


class SendOrder(NamedTuple):
    """Send an order to a member."""

    word: str
    order: Order


class StartRanks(NamedTuple):
    """Start the ranks of this member. The answer, at their end, is `Participant.ranks_ended`."""

    generation: Generation
    node: int


class StopRanks(NamedTuple):
    """End the ranks of this member with SIGTERM, and with SIGKILL after the grace."""

    generation: int


class KillRanks(NamedTuple):
    """Kill the ranks of this member at once: it may not run them any longer."""

    generation: int


class RequestCheckpoint(NamedTuple):
    """Ask the ranks for a checkpoint. The answer, if one comes, is `Participant.checkpoint_written`."""

    generation: int


class NoteGeneration(NamedTuple):
    """Write down that a generation has begun. The leader alone does so; doing it twice is harmless."""

    generation: Generation


class NoteEnd(NamedTuple):
    """Write down how a generation ended. The leader alone does so."""

    generation: Generation
    state: str
    reason: Optional[str]
    detail: str
    exit_code: Optional[int]


class LeaveRun(NamedTuple):
    """The run is over for this agent: end."""


Action = Union[
    ReadLease,
    WriteLease,
    ConnectLeader,
    DisconnectLeader,
    DialMember,
    SendBeat,
    SendOrder,
    StartRanks,
    StopRanks,
    KillRanks,
    RequestCheckpoint,
    NoteGeneration,
    NoteEnd,
    LeaveRun,
]
