"""What a job needs of each node, in words, and whether a GPU is of the type that it asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gofer.model.job import Resources
from gofer.model.layout import Layout
from gofer.text import format_size


def is_of_type(wanted: str, name: str) -> bool:
    """Whether a GPU with this name is of the type: the name has every word that the type has.

    `a100` and `A100-80GB` fit `NVIDIA A100-SXM4-80GB`; `a10` does not.
    """
    return _words(wanted) <= _words(name)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def gpu_names(usage: Sequence[Mapping[str, object]]) -> list[str]:
    """The names of the GPUs in what gofer.core.gpus.sample returned; "" for a GPU that has none."""
    return [str(gpu.get("name") or "") for gpu in usage]


def are_of_type(wanted: str, names: Sequence[str]) -> bool:
    """Whether there are GPUs and all of them are of the type."""
    return bool(names) and all(is_of_type(wanted, name) for name in names)


def shown_names(names: Sequence[str]) -> str:
    """The names for an error: each once."""
    known = dict.fromkeys(f"`{name}`" for name in names if name)
    return ", ".join(known) or "not named by a driver"


def needs_of_node(asked: Resources, layout: Layout) -> str:
    """What each node must have: `2 GPUs of the type a100 and 64.0 GiB of memory`; "" for one CPU alone."""
    count = layout.gpus_per_node
    gpus = f"{count} GPU{'' if count == 1 else 's'}" + (
        f" of the type `{asked.gpu_type}`" if asked.gpu_type else ""
    )
    cpus = layout.procs_per_node * layout.cpus_per_proc
    parts = [gpus] if count else []
    parts += [f"{cpus} CPU{'' if cpus == 1 else 's'}"] if asked.cpus is not None else []
    parts += [f"{format_size(asked.memory_mib << 20)} of memory"] if asked.memory_mib else []
    return " and ".join([*([", ".join(parts[:-1])] if parts[1:] else []), *parts[-1:]])
