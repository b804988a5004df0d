"""Upload what a node writes to an object store, in a child process that ignores signals for the run."""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Callable, Sequence

from gofer.core.retry import backoff, retry
from gofer.node.helper_process import HelperProcess
from gofer.node.uploader.patience import patience_s
from gofer.node.uploader.run_folder import RunFolderUploader
from gofer.objects import open_objects
from gofer.objects.facts import ObjectsError

if TYPE_CHECKING:
    from gofer.core.secrets.run_secrets import RunSecrets
    from gofer.node.uploader.run_folder import RunFolderUploader

LOOK_S = 2.0
_HURRY = b"h"


def _always() -> bool:
    return True


class NodeUploader:
    """The upload process of one node. Create it before the first rank is started, while the agent has no
    threads.
    """

    def __init__(
        self,
        spool: str,
        private: RunSecrets,
        run_id: str,
        sync: Sequence[str],
        *,
        may_write: Callable[[], bool] = _always,
    ) -> None:
        """`private` has the store's credentials, and the secrets that must be masked. `may_write` says
        whether this node may still write outputs: another process may have taken its place.
        """
        self._child = HelperProcess(lambda reader: _carry(reader, spool, private, run_id, sync, may_write))
        self.pid = self._child.pid

    def hurry(self) -> None:
        """Have the process upload now, since the node may end soon. Does not block; safe in a signal
        handler.
        """
        self._child.send(_HURRY)

    def finish(self) -> bool:
        """Upload the rest and wait for it. False when the store did not take everything."""
        return self._child.finish()


def _carry(
    reader: int,
    spool: str,
    private: RunSecrets,
    run_id: str,
    sync: Sequence[str],
    may_write: Callable[[], bool],
) -> bool:
    """Upload until the agent closes the pipe or is gone; whether everything is in the store then."""
    uploader = RunFolderUploader(spool, open_objects(private.store or {}), sync=sync, mask=private.mask())
    outputs = _BackgroundWork(lambda: _try(uploader.outputs.upload_changes, run_id))
    is_hurried = False
    while True:
        if select.select([reader], [], [], LOOK_S)[0]:
            if not os.read(reader, 64):
                break
            is_hurried = True
        _try(uploader.upload_changes, run_id)
        if sync and may_write():
            outputs.begin()
    if is_hurried:  # send records and logs before outputs, which may be large
        _try(uploader.upload_changes, run_id)
    outputs.wait()
    if not may_write():
        _try(uploader.upload_changes, run_id)
        return False
    return _finish(uploader, run_id)


class _BackgroundWork:
    """Repeats work in a thread, so that a large output does not delay logs and records."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the work, unless it is still under way."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()


def _try(upload: Callable[[str], None], run_id: str) -> None:
    try:
        upload(run_id)
    except (ObjectsError, OSError) as error:
        _warn(run_id, str(error))


def _finish(uploader: RunFolderUploader, run_id: str) -> bool:
    try:
        problem = retry(
            lambda: uploader.finish(run_id),
            errors=(ObjectsError, OSError),
            pause_s=backoff(LOOK_S, factor=1.0),
            patience_s=patience_s,
            before_pause=lambda error: _warn(run_id, str(error)),
        )
    except (ObjectsError, OSError) as error:
        problem = str(error)
    if problem is not None:
        _warn(run_id, problem)
    return problem is None


def _warn(run_id: str, words: str) -> None:
    print(f"gofer: the store did not take the files of {run_id}: {words}", file=sys.stderr, flush=True)
