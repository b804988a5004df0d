"""Load click without `inspect`, which is a quarter of click's import time and needed only for help pages.

Import this before anything that imports click. A later import is harmless and has no effect.
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Deferred(ModuleType):
    """A placeholder for a module. Reading an attribute loads the real module."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        __import__(self.__name__)
        return getattr(sys.modules[self.__name__], name)


def _load() -> None:
    if "click" in sys.modules or "inspect" in sys.modules:
        return
    stand_in = sys.modules["inspect"] = _Deferred("inspect")
    try:
        import click  # noqa: F401
    finally:
        # Only click keeps the placeholder; later imports of inspect get the real module.
        if sys.modules.get("inspect") is stand_in:
            del sys.modules["inspect"]


_load()
