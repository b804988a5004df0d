"""The log of requests that `--debug` shows on stderr. The code that logs leaves out private values."""

from __future__ import annotations

import logging


def show_requests() -> None:
    """From now on, in this process. Idempotent."""
    logger = logging.getLogger("gofer")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
