"""Loads click without `inspect`, a quarter of what click costs to import and of use to it only in help pages.

Import this before anything that imports click; importing it later is harmless and changes nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Deferred(ModuleType):
    """Stands for a module until somebody reads an attribute of it, which loads the real one."""

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
        # Only click keeps the stand-in: whoever imports inspect from here on gets the real module.
        if sys.modules.get("inspect") is stand_in:
            del sys.modules["inspect"]


_load()
