"""How many GPUs this machine has, and how busy they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gofer.core.nvml import Nvml

# Without one of these device files (the second is WSL's) there is no driver, and no library to look for.
_DEVICES = ("/dev/nvidiactl", "/dev/dxg")


def open_driver() -> Nvml | None:
    """A session with the NVIDIA driver, to be closed; None on a machine without it."""
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


def sample(indices: list[int] | None = None) -> list[dict[str, Any]]:
    """One reading of each of these GPUs, or of all; empty without a driver."""
    nvml = open_driver()
    if nvml is None:
        return []
    try:
        return [nvml.sample(index) for index in (range(nvml.count()) if indices is None else indices)]
    finally:
        nvml.close()
