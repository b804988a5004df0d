"""gofer: run any command of this folder on any cluster you can reach.

>>> import gofer
>>> run = gofer.submit(["python", "train.py"], gpus=1)  # doctest: +SKIP
>>> run.wait().state  # doctest: +SKIP
'succeeded'

Names are loaded when first used, so `import gofer` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing is slow to load, and every type checker knows this name
if TYPE_CHECKING:
    from gofer._version import __version__ as __version__
    from gofer.api.job_template import job as job
    from gofer.api.run import Run as Run
    from gofer.api.run import runs as runs
    from gofer.api.run import wait as wait
    from gofer.api.submit import map as map
    from gofer.api.submit import submit as submit
    from gofer.errors import GoferError as GoferError
    from gofer.errors import ResultError as ResultError
    from gofer.errors import RunFailed as RunFailed
    from gofer.packed import PackedFolder as PackedFolder
    from gofer.packed import open as open

_HOMES = {
    "GoferError": "gofer.errors",
    "PackedFolder": "gofer.packed",
    "ResultError": "gofer.errors",
    "Run": "gofer.api.run",
    "RunFailed": "gofer.errors",
    "__version__": "gofer._version",
    "job": "gofer.api.job_template",
    "map": "gofer.api.submit",
    "open": "gofer.packed",
    "runs": "gofer.api.run",
    "submit": "gofer.api.submit",
    "wait": "gofer.api.run",
}

__all__ = [
    "GoferError",
    "PackedFolder",
    "ResultError",
    "Run",
    "RunFailed",
    "__version__",
    "job",
    "map",
    "open",
    "runs",
    "submit",
    "wait",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module `gofer` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
