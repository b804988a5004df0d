"""Names of the settings and of this user's folders, for completion. Never fails, creates no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.errors import GoferError

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem


def images(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """The images of `dockers:` whose name begins with `start`."""
    from gofer.config.dockers import docker_names
    from gofer.ops.session import Session

    try:
        with Session() as session:
            return _items(docker_names(session.settings), start)
    except (GoferError, OSError):
        return []


def profiles(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """The profiles of Azure logins whose name begins with `start`."""
    import os

    from gofer.ops.accounts.azure_profiles import Profiles

    try:
        return _items(Profiles.of(os.environ).names(), start)
    except (GoferError, OSError):
        return []


def doctors(ctx: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """`azure`, then the targets."""
    from gofer.cli.completion_words import target_names

    return target_names(start) if ctx.params.get("words") else _items(["azure"], start)


def _items(names: list[str], start: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(start)]
