"""What a measurement raises when it cannot be taken; the run goes on with the next competitor."""

from __future__ import annotations


class BenchError(Exception):
    """One line: which competitor or command failed, and how."""
