"""Warn when a run asks for no GPU on a target that has GPUs, since the run then sees none.

If the number of GPUs is set anywhere, even to 0, this is intended, and there is no warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gofer.ops.messages import Message

if TYPE_CHECKING:
    from gofer.backends.base import Backend
    from gofer.model.layout import Layout
    from gofer.model.run import RunRecord
    from gofer.ops.session import Session

SAW_NO_GPU = "saw no GPU"
_CUDA_IS_MISSING = re.compile(
    r"No CUDA GPUs are available|no CUDA-capable device|CUDA is not available|CUDA is required"
    r"|ProcessGroupNCCL is only supported with GPUs|Found no NVIDIA driver|no GPUs? (?:found|available)"
    r"|torch\.cuda\.is_available\(\) is False|No supported gpu backend found|CUDA_ERROR_NO_DEVICE"
    r"|No visible GPU|requires a GPU|cudaErrorNoDevice|Unable to initialize NVML|no CUDA device",
    re.IGNORECASE,
)


def note_unseen(session: Session, target: str, backend: Backend, layout: Layout) -> Layout:
    """The layout with the number of GPUs that the run will not see; warns if there are some."""
    unseen = 0 if layout.gpus_per_node else backend.hidden_gpus()
    if unseen:
        session.emit(
            Message(
                f"`{target}` has {unseen} GPU{'s' if unseen > 1 else ''}{_a_node(layout)}; this run asks "
                "for none and sees none: `-n 1` asks for one, `default_gpus:` of the target sets "
                "another default"
            )
        )
    return msgspec.structs.replace(layout, unseen_gpus=unseen)


def _a_node(layout: Layout) -> str:
    return " a node" if layout.nodes > 1 else ""


def saw_none(record: RunRecord | None) -> bool:
    """Whether the run saw no GPU although its target has some."""
    return record is not None and record.layout.unseen_gpus > 0


def explains(record: RunRecord | None, tail: Sequence[str]) -> bool:
    """Whether the last lines of a log say that CUDA is missing, and the run saw no GPU."""
    return saw_none(record) and any(names_missing_cuda(line) for line in tail)


def names_missing_cuda(line: str) -> bool:
    """Whether a line of a log says that CUDA finds no GPU."""
    return _CUDA_IS_MISSING.search(line) is not None


def with_cure(words: str) -> str:
    """The reason, with advice to ask for GPUs."""
    return f"{words}; it asked for no GPU and {SAW_NO_GPU} (`-n 1` asks for 1)"
