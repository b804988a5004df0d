"""The NVIDIA GPUs of this machine through the driver's own library (NVML), without any package."""

from __future__ import annotations

import ctypes

from gofer.core.gpus import GpuReading


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Nvml:
    """An open NVML session. A call that fails leaves its field out and raises nothing."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    def open(cls) -> Nvml | None:
        """Open a session; None on a machine without the driver."""
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return None
        return cls(library) if library.nvmlInit_v2() == 0 else None

    def close(self) -> None:
        self._library.nvmlShutdown()

    def count(self) -> int:
        number = ctypes.c_uint()
        return number.value if self._library.nvmlDeviceGetCount_v2(ctypes.byref(number)) == 0 else 0

    def driver(self) -> str | None:
        text = ctypes.create_string_buffer(96)
        if self._library.nvmlSystemGetDriverVersion(text, 96) != 0:
            return None
        return text.value.decode("ascii", "replace")

    def sample(self, index: int) -> GpuReading:
        """Name, memory and utilisation of one GPU, as far as the driver reports them."""
        device = ctypes.c_void_p()
        facts: GpuReading = {"index": index}
        if self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) != 0:
            return facts
        name = ctypes.create_string_buffer(96)
        if self._library.nvmlDeviceGetName(device, name, 96) == 0:
            facts["name"] = name.value.decode("ascii", "replace")
        memory = _Memory()
        if self._library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0:
            facts["memory_used_mib"] = memory.used >> 20
            facts["memory_total_mib"] = memory.total >> 20
        used = _Utilisation()
        if self._library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(used)) == 0:
            facts["utilisation"] = used.gpu
        return facts
