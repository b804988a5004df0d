"""The code folder, content-addressed: taken here, sent once, restored anywhere.

`take` reads a folder and sends what the store lacks; `restore`, `load` and `differences` read it back.
The formats are in gofer.core.manifest, which the node shares; docs/snapshots.md describes the ignore rules.
"""

from __future__ import annotations

from gofer.snapshot.capture import survey, take
from gofer.snapshot.contents import differences, load, restore
from gofer.snapshot.summary import Snapshot

__all__ = ["Snapshot", "differences", "load", "restore", "survey", "take"]
