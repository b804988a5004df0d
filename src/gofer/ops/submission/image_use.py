"""Which image a run gets: a target's `image:` may name one of `dockers:`, wrapped where it must be."""

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
    """The options with the whole name of the image in place of one of `dockers:`; asks nobody.

    Where a wrapped one is wanted and there is none yet, the image itself: reading commands must go on
    working, and `check_image` has the last word before a run is sent.
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
            f"the wrapped image `{kept.image}` of the target `{target}` is on this machine alone",
            hint=f"`gofer image wrap {found.name} --push`",
        )


def _named(session: Session, options: msgspec.Struct) -> Docker | None:
    image = getattr(options, "image", None)
    if not isinstance(image, str) or image not in docker_names(session.settings):
        return None
    return docker(session.settings, image)


def _is_wrapped(found: Docker, options: msgspec.Struct) -> bool:
    return found.sing_wrap and getattr(options, "platform", None) == _PLATFORM
