"""Choose the image of a run: `image:` of a target may name an entry of `dockers:`, wrapped if necessary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.registry import capabilities_of
from gofer.config.dockers import Docker, docker, docker_names
from gofer.errors import CheckFailed

if TYPE_CHECKING:
    from gofer.backends.base import Capabilities
    from gofer.ops.session import Session


def complete_image(session: Session, capabilities: Capabilities) -> str | None:
    """The image that a target names: for an entry of `dockers:`, its complete name. Calls no service.

    If a wrapped image is needed and does not exist yet, the image itself is used, so that commands that only
    read work. `check_image` checks it before a run is sent.
    """
    found = _named(session, capabilities)
    if found is None:
        return capabilities.image
    if found.sing_wrap and capabilities.is_image_wrapped:
        from gofer.ops.images.wrap import wrapped_of

        kept = wrapped_of(session, found)
        return kept.image if kept else found.pinned
    return found.pinned


def check_image(session: Session, target: str) -> None:
    """CheckFailed when runs of the target need a wrapped image that is not in its registry."""
    capabilities = capabilities_of(session.settings.target(target))
    found = _named(session, capabilities)
    if found is None or not (found.sing_wrap and capabilities.is_image_wrapped):
        return
    from gofer.ops.images.wrap import wrapped_of

    kept = wrapped_of(session, found)
    if kept is None:
        raise CheckFailed(
            f"the image `{found.name}` of the target `{target}` must be wrapped for Singularity, and is not",
            hint=f"`gofer image wrap {found.name} --push`",
        )
    if not kept.is_pushed:
        raise CheckFailed(
            f"the wrapped image `{kept.image}` of the target `{target}` is only on this machine",
            hint=f"`gofer image wrap {found.name} --push`",
        )


def _named(session: Session, capabilities: Capabilities) -> Docker | None:
    image = capabilities.image
    if image is None or image not in docker_names(session.settings):
        return None
    return docker(session.settings, image)
