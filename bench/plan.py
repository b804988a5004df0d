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
    start_rounds: int = 15
    submit_rounds: int = 10
    array_rounds: int = 3
    snapshot_rounds: int = 5
    data_rounds: int = 3
    ledger_runs: int = 10_000
    array_rows: int = 1_000
    tree_files: int = 10_000
    tree_bytes: int = 200_000_000
    data_files: int = 5_000
    data_bytes: int = 1 << 30
    data_listed: int = 100_000
    slurm_singles: int = 100
    slurm_settle_s: float = 110.0
    slurm_idle_s: float = 180.0
    azure_rounds: int = 7
    azure_jobs: int = 1_000
    azure_lines: int = 100_000
    k8s_runs: int = 1_000
    k8s_rounds: int = 3

    @classmethod
    def full(cls, places: Places, peers: Peers) -> Plan:
        return cls(places, peers)

    @classmethod
    def quick(cls, places: Places, peers: Peers) -> Plan:
        """A look in a few minutes: the same measurements, too few and too small to quote."""
        return cls(
            places,
            peers,
            start_rounds=3,
            submit_rounds=3,
            array_rounds=1,
            snapshot_rounds=2,
            data_rounds=1,
            ledger_runs=1_000,
            array_rows=100,
            tree_files=1_000,
            tree_bytes=20_000_000,
            data_files=300,
            data_bytes=64 << 20,
            data_listed=12_000,
            slurm_singles=10,
            slurm_settle_s=10.0,
            slurm_idle_s=20.0,
            azure_rounds=2,
            azure_jobs=200,
            azure_lines=5_000,
            k8s_runs=20,
            k8s_rounds=1,
        )
