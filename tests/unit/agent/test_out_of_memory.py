"""Was it the lack of memory? The kernel's evidence first, the log's words second."""

from __future__ import annotations

import os

import pytest

from gofer.node import out_of_memory
from gofer.node.out_of_memory import Kills, Victim
from gofer.node.watch import ProcessEnd

MIB = 1024
KILLED = ProcessEnd(0, 10, None, 9, 4.0, 50 * MIB)
PASSED_ON = ProcessEnd(0, 10, 137, None, 4.0, 50 * MIB)
FAILED = ProcessEnd(0, 10, 1, None, 4.0, 50 * MIB)
RECORD = (
    b"3,2454,15435672605,-;Memory cgroup out of memory: Killed process 7394 (a) b) total-vm:78116kB, "
    b"anon-rss:65280kB, file-rss:5804kB, shmem-rss:1kB, UID:0 pgtables:196kB oom_score_adj:0\n"
)


@pytest.mark.parametrize(
    ("first", "victim", "is_victim"),
    [
        (KILLED, Victim(10, 60 * MIB), True),
        (KILLED, Victim(11, 40 * MIB), False),
        (PASSED_ON, Victim(11, 49 * MIB), True),
        (PASSED_ON, Victim(11, 60 * MIB), False),
    ],
    ids=["the rank", "another process", "a child", "larger than any child"],
)
def test_the_process_in_the_kernel_log(first: ProcessEnd, victim: Victim, is_victim: bool) -> None:
    assert out_of_memory.is_victim(first, victim) == is_victim


@pytest.mark.parametrize(
    ("peaks", "is_close"), [((50,), True), ((20, 35), True), ((20, 20), False), ((), False)]
)
def test_only_a_run_that_held_half_of_the_memory_is_suspected(peaks: tuple[int, ...], is_close: bool) -> None:
    ended = [KILLED._replace(peak_kib=peak) for peak in peaks]
    assert out_of_memory.is_close_to_limit(ended, 100) == is_close


def test_victims_are_read_from_the_records_of_the_kernel() -> None:
    other = b"6,1,2,-;python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL)\n"
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        os.write(writing, other)
        assert out_of_memory.read_victims(reading) == []
        os.write(writing, RECORD)
        assert out_of_memory.read_victims(reading) == [Victim(7394, 65280 + 5804 + 1)]
    finally:
        os.close(reading)
        os.close(writing)


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
    assert out_of_memory.explained_by(["Traceback", line, ""])


@pytest.mark.parametrize(
    "line", ["memory: 12 GiB used", "NotMyMemoryErrors", "FileNotFoundError: out of memory.txt"]
)
def test_words_that_only_sound_like_it(line: str) -> None:
    assert not out_of_memory.explained_by([line])


def test_words_explain_no_kill_and_no_kill_explains_an_exit_code() -> None:
    kills = Kills()
    assert not out_of_memory.ran_out(KILLED, [KILLED], kills=kills, tail=["MemoryError"])
    assert not out_of_memory.ran_out(FAILED, [FAILED], kills=kills, tail=["ValueError"])
    assert out_of_memory.ran_out(FAILED, [FAILED], kills=kills, tail=["MemoryError"])
