"""Signs of life: the last reading of a node, and the highest that it has seen."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gofer.node.events import EventLog


def test_a_heartbeat_keeps_the_peak(tmp_path: Path) -> None:
    event_log = EventLog(str(tmp_path))
    held = bytearray(80 << 20)
    event_log.beat([], [os.getpid()])
    first = json.loads((tmp_path / "heartbeat.json").read_text())
    del held
    event_log.beat([], [])
    second = json.loads((tmp_path / "heartbeat.json").read_text())
    assert first["rss_peak_mib"] == first["rss_mib"] > 80
    assert second["rss_mib"] < first["rss_mib"] and second["rss_peak_mib"] == first["rss_peak_mib"]
