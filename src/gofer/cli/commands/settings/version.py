"""`gofer version`. Imports nothing, since main.py answers the plain form before click and typing are
loaded.
"""

from __future__ import annotations

from gofer._version import __version__


def show(as_json: bool = False) -> int:
    """Print the version; exit status 0."""
    print(f'{{"version": "{__version__}"}}' if as_json else f"gofer {__version__}")
    return 0


def __getattr__(name: str) -> object:
    if name != "command":
        raise AttributeError(name)
    from gofer.cli.options import Command, json_option  # loads click

    return Command("version", show, [json_option()], help="Print the version.")
