"""Snapshots: the code folder as content-addressed objects, sent once and restored on any machine.

`take_snapshot` reads a folder and sends what the store lacks; `restore`, `load` and `differences` read a
snapshot. The formats are in gofer.core.manifest, which nodes use too; docs/snapshots.md describes the ignore
rules.
"""

from __future__ import annotations

from gofer.snapshot.capture import survey, take_snapshot
from gofer.snapshot.contents import differences, load, restore
from gofer.snapshot.summary import Snapshot

__all__ = ["Snapshot", "differences", "load", "restore", "survey", "take_snapshot"]
