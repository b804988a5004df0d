"""The heartbeat of a node reads its GPUs through the driver's library and keeps the peaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FAKE_DRIVER = Path(__file__).parents[1] / "local" / "fake_nvml.c"
TWO_READINGS = """
import json, os, sys
from gofer.node.events import EventLog

event_log = EventLog(sys.argv[1])
for use in ("700 90", "300 10"):
    with open(os.environ["FAKE_NVML_USE"], "w") as file:
        file.write(use)
    event_log.beat([0, 5], [])
"""
# The driver is looked for by its device file.
MACHINE = [
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "sh",
    "-ec",
    'mount --bind "$1" /dev; shift; exec "$@"',
]


@pytest.mark.root
def test_a_heartbeat_keeps_the_peaks_of_each_gpu(tmp_path: Path) -> None:
    library = tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, FAKE_DRIVER], check=True, timeout=60)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "FAKE_NVML_USE": str(tmp_path / "use")}
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidiactl", "null"):
        (devices / name).touch()
    words = [*MACHINE, "sh", str(devices), sys.executable, "-c", TWO_READINGS, str(tmp_path)]
    subprocess.run(words, check=True, timeout=60, env=environ)
    first, absent = json.loads((tmp_path / "heartbeat.json").read_text())["gpus"]
    assert (first["name"], first["memory_used_mib"], first["memory_total_mib"]) == ("Test GPU", 300, 1024)
    assert (first["memory_peak_mib"], first["utilisation"], first["utilisation_peak"]) == (700, 10, 90)
    assert absent == {"index": 5, "memory_peak_mib": None, "utilisation_peak": None}
