"""Raised by a measurement that fails; the benchmark continues with the next competitor."""

from __future__ import annotations


class BenchError(Exception):
    """One line: which competitor or command failed, and how."""
