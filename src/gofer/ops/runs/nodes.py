"""The nodes of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.errors import CheckFailed

if TYPE_CHECKING:
    from gofer.backends.base import NodeFacts
    from gofer.ops.session import Session


def nodes_of(session: Session, target: str | None) -> list[NodeFacts]:
    """The nodes of a target (default: the default target). Calls its cluster. CheckFailed when its kind has
    no nodes.
    """
    found = session.settings.target(target)
    nodes = session.backend(found.name).nodes()
    if nodes is None:
        raise CheckFailed(
            f"the target `{found.name}` cannot list nodes: its kind is `{found.kind}`",
            hint=f"`gofer target show {found.name}` shows what is known about it",
        )
    return list(nodes)
