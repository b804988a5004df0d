"""Combine files, environment and flags into settings, each value with its origin.

This package does not import backends or stores: callers pass the option types of each kind of target. Names
are imported when first used, since most commands need only the paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gofer.config.paths import Paths as Paths
    from gofer.config.settings import Settings as Settings
    from gofer.config.settings import load as load

_HOMES = {"Paths": "gofer.config.paths", "Settings": "gofer.config.settings", "load": "gofer.config.settings"}

__all__ = ["Paths", "Settings", "load"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module `gofer.config` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
