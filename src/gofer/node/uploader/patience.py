"""How long a node goes on trying to reach a store."""

from __future__ import annotations

import sys
from typing import Callable, TypeVar

from gofer.core.retry import backoff, retry, retry_if
from gofer.core.sleep import pause
from gofer.node.cancellable_task import WorkFailed
from gofer.objects.facts import ObjectsError

T = TypeVar("T")

# A store that cannot be reached may come back; a store that refuses the credentials of the run will go on
# refusing.
UNREACHABLE_PATIENCE_S = 600.0
REFUSED_PATIENCE_S = 20.0
_REFUSALS = (401, 403, 404)


def patience_s(error: BaseException | None) -> float:
    """For how many seconds a call of the store is repeated after this error."""
    is_refused = isinstance(error, ObjectsError) and error.status in _REFUSALS
    return REFUSED_PATIENCE_S if is_refused else UNREACHABLE_PATIENCE_S


def retry_store(
    act: Callable[[], T], *, words: str, pause_s: float, wait: Callable[[float], object] = pause
) -> T:
    """Call `act`, and repeat it while the store does not answer. Blocks. The first failure is reported on
    stderr, as `words`. Raises the last error when the store stays away, and what `wait` raises.
    """
    is_reported = False

    def report(error: Exception) -> None:
        nonlocal is_reported
        if not is_reported:
            print(f"gofer: {words}; trying again: {error}", file=sys.stderr, flush=True)
        is_reported = True

    return retry(
        act,
        errors=(ObjectsError, WorkFailed),
        pause_s=retry_if(lambda error: _cause(error) is not None, backoff(pause_s, factor=1.0)),
        patience_s=lambda error: patience_s(_cause(error)),
        before_pause=report,
        wait=wait,
    )


def _cause(error: Exception) -> ObjectsError | None:
    """The error of the store: `error` itself, or the error that ended a task."""
    cause = error if isinstance(error, ObjectsError) else error.__cause__
    return cause if isinstance(cause, ObjectsError) else None
