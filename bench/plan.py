"""How much of everything a run of the benchmark does."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers import Peers
from bench.places import Places


@dataclass(frozen=True)
class Plan:
    """Sizes and rounds of one run, with the places and peers it uses."""

    places: Places
    peers: Peers
    start_rounds: int
    submit_rounds: int
    array_rounds: int
    snapshot_rounds: int
    ledger_runs: int
    array_rows: int
    tree_files: int
    tree_bytes: int

    @classmethod
    def full(cls, places: Places, peers: Peers) -> Plan:
        return cls(places, peers, 15, 10, 3, 5, 10_000, 1_000, 10_000, 200_000_000)

    @classmethod
    def quick(cls, places: Places, peers: Peers) -> Plan:
        """A look in about two minutes: the same measurements, too few and too small to quote."""
        return cls(places, peers, 3, 3, 1, 2, 1_000, 100, 1_000, 20_000_000)
