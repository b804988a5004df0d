"""The session of one call: its messages go to a logger, and mistakes of the caller have a short traceback."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import TracebackType

from gofer.errors import CheckFailed, UsageError
from gofer.ops.messages import AnyMessage, Warning
from gofer.ops.session import Session

FolderPath = str | os.PathLike[str]

_logger = logging.getLogger("gofer")
_logger.addHandler(logging.NullHandler())


class OpenProject:
    """A context with the session of a project: of the folder, else of the current one. For one thread.

    A UsageError or CheckFailed leaves it without the frames below the call: these say nothing about what the
    caller can mend.
    """

    def __init__(self, folder: FolderPath | None) -> None:
        self._session = Session(None if folder is None else Path(folder), emit=_log)

    def __enter__(self) -> Session:
        return self._session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()
        if isinstance(error, (UsageError, CheckFailed)):
            raise error.with_traceback(None)


def _log(message: AnyMessage) -> None:
    """A library does not write to stderr by itself."""
    if isinstance(message, Warning):
        _logger.warning("%s", message.text)
    else:
        _logger.info("%s", message)
