"""Failures of memory, disks, GPUs and native code, and what helps."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import msgspec

from gofer.backends import registry
from gofer.core.states import Reason
from gofer.ops.causes.cause import Cause
from gofer.ops.submission import gpu_oversight
from gofer.text import quote_word

if TYPE_CHECKING:
    from gofer.model.job import Job
    from gofer.ops.causes.cause import FailedRun

_GPU_IS_FULL = re.compile(
    r"\b(CUDA|HIP|MPS|XPU)\b.{0,40}out of memory|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE
)
_DISK_IS_FULL = re.compile(r"No space left on device|Disk quota exceeded|Errno (?:28|122)\b")
_SHARED_MEMORY = re.compile(
    r"insufficient shared memory|/dev/shm|unable to (?:open|mmap|write to) (?:shared memory|file </?torch_)",
    re.I,
)
_BATCH = re.compile(r"--(?:[\w-]+[._-])?(?:batch(?:[_-]?size)?|bs|bsz)")
_HALVED = re.compile(rf"(?P<name>{_BATCH.pattern})=(?P<size>\d+)")
_NO_CUDA_BUILD = re.compile(r"not compiled with CUDA|CUDA is not supported on your|built without CUDA")
_WRONG_BUILD = re.compile(r"no kernel image is available|is not compatible with the current PyTorch")
_ORDINAL = re.compile(r"invalid device ordinal")
_ASSERT = re.compile(r"device-side assert|CUDA error: (?:an )?illegal (?:memory|instruction)|cudaErrorAssert")
_NCCL = re.compile(r"\bNCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError")
_SHOW_TORCH = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.get_arch_list())"
# Signals of a program that failed in native code: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
_CRASHES = frozenset({4, 6, 7, 8, 11})
_KILLED = 9


def find_full_memory(run: FailedRun) -> Cause | None:
    """Memory of a GPU, or of the node, that was too small."""
    if run.row.reason != Reason.OUT_OF_MEMORY:
        return None
    smaller = _with_half_a_batch(run.job)
    steps = () if smaller is None else (run.with_job(smaller),)
    nodes = f"gofer list nodes -t {quote_word(run.row.target)}"
    if any(_GPU_IS_FULL.search(line) for line in run.lines):
        words = "the memory of the GPU is full: use a smaller batch, or `--gpu-type` for a larger GPU"
        return Cause(words, (*steps, nodes, *(() if steps else (run.again,))))
    more = _with_more_memory(run)
    if more is None:
        words = "use less memory, such as by a smaller batch, or a node with more"
        return Cause(words, (*steps, nodes, *(() if steps else (run.again,))))
    return Cause("it needs more memory, or a smaller batch", (run.with_job(more), *steps))


def _with_half_a_batch(job: Job) -> Job | None:
    """The job with half the batch, if the command has an option for its size."""
    words = list(job.command)
    for at, word in enumerate(words):
        joined = _HALVED.fullmatch(word)
        if joined is not None and int(joined["size"]) > 1:
            words[at] = f"{joined['name']}={int(joined['size']) // 2}"
        elif at and _BATCH.fullmatch(words[at - 1]) and word.isdigit() and int(word) > 1:
            words[at] = str(int(word) // 2)
        else:
            continue
        return msgspec.structs.replace(job, command=tuple(words))
    return None


def _with_more_memory(run: FailedRun) -> Job | None:
    """The job with twice the memory that it asked for or used; None where nothing says how much that was.

    On a machine with gofer's own queue, only a run with `--memory` has a limit.
    """
    asked = run.job.resources.memory_mib
    used = 0.0 if registry.runs_here(run.row.backend) or run.peak_mib is None else run.peak_mib
    if not asked and not used:
        return None
    gib = math.ceil(2 * max(asked, used) / 1024)
    return msgspec.structs.replace(
        run.job, resources=msgspec.structs.replace(run.job.resources, memory=f"{gib}GiB")
    )


def find_full_disk(run: FailedRun) -> Cause | None:
    """A disk or the shared memory that was full."""
    if any(_SHARED_MEMORY.search(line) for line in run.lines):
        words = "the shared memory of the node (/dev/shm) is full: use fewer workers that load data"
        return Cause(words, (run.again,))
    if not any(_DISK_IS_FULL.search(line) for line in run.lines):
        return None
    words = "a disk of the node is full: `gofer prune` removes what gofer keeps there"
    return Cause(words, (f"gofer prune --dry-run -t {quote_word(run.row.target)}", run.again))


def find_gpu_error(run: FailedRun) -> Cause | None:
    """A GPU that the run did not have, or that its programs cannot use."""
    text = "\n".join(run.lines)
    if gpu_oversight.explains(run.record, run.lines):
        return Cause("", (run.with_job(_with_gpus(run.job, 1)),))
    if _NO_CUDA_BUILD.search(text) or _WRONG_BUILD.search(text):
        words = "the installed package was built without support for this GPU: install another build of it"
        return Cause(words, (run.with_job(_show_torch(run.job)), run.again))
    if _ORDINAL.search(text):
        count = run.job.resources.gpus
        words = f"the run has {count} GPU{'' if count == 1 else 's'}, numbered from 0"
        return Cause(words, (run.with_job(_with_gpus(run.job, max(2 * count, 1))),))
    if _ASSERT.search(text):
        words = "CUDA reports this late: with CUDA_LAUNCH_BLOCKING=1 the traceback names the line"
        return Cause(words, (run.with_job(_with_env(run.job, "CUDA_LAUNCH_BLOCKING", "1")),))
    if _NCCL.search(text):
        words = "NCCL_DEBUG=INFO shows what NCCL could not do"
        return Cause(words, (run.with_job(_with_env(run.job, "NCCL_DEBUG", "INFO")),))
    return _no_gpu(run) if any(gpu_oversight.names_missing_cuda(line) for line in run.lines) else None


def _no_gpu(run: FailedRun) -> Cause:
    target = quote_word(run.row.target)
    if not run.row.gpus:
        words = f"the run has no GPU, and `{run.row.target}` has none: choose a target with GPUs by `-t`"
        return Cause(words, ("gofer list targets", f"gofer list nodes -t {target}"))
    words = "the run has GPUs, and CUDA does not find them"
    check = msgspec.structs.replace(run.job, command=("nvidia-smi",))
    return Cause(words, (run.with_job(check), run.again))


def _show_torch(job: Job) -> Job:
    program = job.command[0] if "python" in job.command[0] else "python"
    return msgspec.structs.replace(job, command=(program, "-c", _SHOW_TORCH))


def _with_gpus(job: Job, gpus: int) -> Job:
    return msgspec.structs.replace(job, resources=msgspec.structs.replace(job.resources, gpus=gpus))


def _with_env(job: Job, name: str, value: str) -> Job:
    return msgspec.structs.replace(job, env={**job.env, name: value})


def find_crash(run: FailedRun, signal: int | None) -> Cause | None:
    """A signal that ended the command."""
    if signal == _KILLED:
        words = "nothing shows who sent it; it is often the kernel of a node that ran out of memory"
        return Cause(words, (run.again,))
    if signal not in _CRASHES:
        return None
    if "python" not in " ".join(run.job.command) or "PYTHONFAULTHANDLER" in run.job.env:
        return Cause("it crashed in native code", (run.again,))
    words = "it crashed in native code: PYTHONFAULTHANDLER=1 shows the line of Python"
    return Cause(words, (run.with_job(_with_env(run.job, "PYTHONFAULTHANDLER", "1")),))
