"""Was it the lack of memory? The kernel's count first, the log's words second."""

from __future__ import annotations

import pytest

from gofer.agent import memory

KILLED = 137


@pytest.mark.usefixtures("kernel_kills")
def test_a_kill_is_for_memory_only_if_the_kernel_counted_one() -> None:
    now = memory.kernel_kills()
    assert memory.explains(KILLED, kills_before=now - 1, tail=[])
    assert not memory.explains(KILLED, kills_before=now, tail=[])


def test_other_ends_are_not_explained_by_the_kernels_count() -> None:
    now = memory.kernel_kills()
    assert not memory.explains(1, kills_before=now - 1, tail=["ValueError"])
    assert not memory.explains(0, kills_before=now - 1, tail=["MemoryError"])


@pytest.mark.parametrize(
    "line",
    [
        "MemoryError",
        "MemoryError: Unable to allocate 8.00 EiB for an array",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 EiB",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: CUDA error: out of memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
        "java.lang.OutOfMemoryError: Java heap space",
        "fatal error: out of memory allocating heap arena map",
    ],
)
def test_the_words_of_common_libraries(line: str) -> None:
    assert memory.explains(1, kills_before=memory.kernel_kills(), tail=["Traceback", line, ""])


@pytest.mark.parametrize(
    "line", ["memory: 12 GiB used", "NotMyMemoryErrors", "FileNotFoundError: out of memory.txt"]
)
def test_words_that_only_sound_like_it(line: str) -> None:
    assert not memory.explains(1, kills_before=memory.kernel_kills(), tail=[line])
