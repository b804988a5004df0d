"""What a cluster says it has, as a person reads it."""

from __future__ import annotations

import pytest

from gofer.ops.runs.target_views import fact


@pytest.mark.parametrize(
    ("name", "value", "label", "text"),
    [
        ("gpus", {"free": 3, "total": 8}, "gpus", "3 of 8 free"),
        ("gpus", {"free": 0, "total": 0}, "gpus", "none"),
        (
            "gpus",
            {"a100": {"free": 1, "total": 4}, "h100": {"free": 8, "total": 8}},
            "gpus",
            "a100: 1 of 4 free\nh100: 8 of 8 free",
        ),
        ("gpus_per_node", 4, "gpus per node", "4"),
        ("memory_mib", 24576, "memory", "24.0 GiB"),
        ("queue", {"running": 2, "pending": 1}, "queue", "2 running, 1 pending"),
        ("mine", {}, "mine", ""),
        ("limits", [{"account": "lab", "maxjobs": "4"}], "limits", "account=lab maxjobs=4"),
        ("requeue", False, "requeue", "no"),
        ("partition", None, "partition", ""),
        ("hosts", ["a", "b"], "hosts", "a\nb"),
        (
            "usage",
            [
                {
                    "index": 0,
                    "name": "H100",
                    "memory_used_mib": 1024,
                    "memory_total_mib": 81920,
                    "utilisation": 97,
                }
            ],
            "usage",
            "GPU 0 H100: 97 % busy, 1.0 GiB of 80.0 GiB",
        ),
    ],
)
def test_facts_are_words(name: str, value: object, label: str, text: str) -> None:
    assert fact(name, value) == (label, text)


def test_rows_of_the_same_keys_are_a_table() -> None:
    rows = [{"tier": "Premium", "used": 3, "limit": 16}, {"tier": "Basic", "used": 10, "limit": 8}]
    assert fact("quota", rows) == (
        "quota",
        "TIER     USED  LIMIT\nPremium     3     16\nBasic      10      8",
    )
