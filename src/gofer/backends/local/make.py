"""Makes the backend of a target from its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.kind import BackendContext, Kind, check_reach
from gofer.backends.local.options import LocalOptions, capabilities

if TYPE_CHECKING:
    from gofer.backends.local.backend import LocalBackend


def make(options: LocalOptions, context: BackendContext) -> LocalBackend:
    """The backend of a target; UsageError when runs could not reach the target's store."""
    from gofer.backends.local.backend import LocalBackend  # most commands only read the options

    check_reach(context)
    return LocalBackend(options, context)


KIND = Kind(LocalOptions, make, capabilities=capabilities, runs_here=True)
