"""`python -m gofer`, the same as the `gofer` command."""

from __future__ import annotations

from gofer.cli.main import entry

entry()
