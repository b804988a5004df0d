"""Choose the image of a run: `image:` of a target may name an entry of `dockers:`, wrapped if necessary."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from gofer.config.dockers import Docker, docker, docker_names
from gofer.errors import CheckFailed

if TYPE_CHECKING:
    from gofer.ops.session import Session

Options = TypeVar("Options", bound=msgspec.Struct)
_PLATFORM = "singularity"


def with_image(session: Session, options: Options) -> Options:
    """The options, with the full name of the image in place of an entry of `dockers:`. Calls no service.

    If a wrapped image is needed and does not exist yet, the image itself is used, so that commands that only
    read work. `check_image` checks it before a run is sent.
    """
    found = _named(session, options)
    if found is None:
        return options
    name = found.pinned
    if _is_wrapped(found, options):
        from gofer.ops.images.wrap import wrapped_of

        kept = wrapped_of(session, found)
        name = kept.image if kept else name
    return msgspec.structs.replace(options, **{"image": name})


def check_image(session: Session, target: str) -> None:
    """CheckFailed when runs of the target need a wrapped image that is not in its registry."""
    options = session.settings.target(target).options
    found = _named(session, options)
    if found is None or not _is_wrapped(found, options):
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


def _named(session: Session, options: msgspec.Struct) -> Docker | None:
    image = getattr(options, "image", None)
    if not isinstance(image, str) or image not in docker_names(session.settings):
        return None
    return docker(session.settings, image)


def _is_wrapped(found: Docker, options: msgspec.Struct) -> bool:
    return found.sing_wrap and getattr(options, "platform", None) == _PLATFORM
