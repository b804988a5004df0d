"""How many GPUs this machine has, and how busy they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from gofer.core.nvml import Nvml

# One of these device files exists where an NVIDIA driver is loaded (the second is that of WSL). Checking for
# them is much faster than loading the library.
_DEVICES = ("/dev/nvidiactl", "/dev/dxg")


class GpuReading(TypedDict, total=False):
    """One GPU; memory in MiB, utilisation in percent. A fact that the driver does not report is missing."""

    index: int
    name: str
    memory_used_mib: int
    memory_total_mib: int
    utilisation: int


def open_driver() -> Nvml | None:
    """A session with the NVIDIA driver; the caller closes it. None on a machine without the driver."""
    if not any(os.path.exists(path) for path in _DEVICES):
        return None
    from gofer.core.nvml import Nvml

    return Nvml.open()


def count() -> int:
    """How many GPUs the driver shows; 0 without a driver."""
    nvml = open_driver()
    if nvml is None:
        return 0
    try:
        return nvml.count()
    finally:
        nvml.close()


def sample(indices: list[int] | None = None) -> list[GpuReading]:
    """Name, memory and utilisation of these GPUs, or of all; empty without a driver."""
    nvml = open_driver()
    if nvml is None:
        return []
    try:
        return [nvml.sample(index) for index in (range(nvml.count()) if indices is None else indices)]
    finally:
        nvml.close()
