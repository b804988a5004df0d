"""Makes the backend of a target from its options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gofer.backends.kind import BackendContext, CheckContext, Kind, KindChecks
from gofer.backends.kubernetes.options import KubernetesOptions, capabilities
from gofer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gofer.backends.kubernetes.backend import KubernetesBackend
    from gofer.backends.target_setup import Setup
    from gofer.config.targets import Target
    from gofer.model.checks import Check


def make(options: KubernetesOptions, context: BackendContext) -> KubernetesBackend:
    """The backend of a target; UsageError when the image is missing, or when pods cannot reach the store."""
    from gofer.backends.kubernetes.backend import KubernetesBackend  # most commands only read the options

    if not (options.image or context.image):
        raise UsageError(
            f"the target `{context.target}` names no image",
            hint="set `image:` in the target to an image with Python 3.8 or newer: `image: python:3.12`",
        )
    if not context.is_lent:
        raise UsageError(
            f"pods cannot reach the store `{context.store_url}` of the target `{context.target}`",
            hint="give the target a store whose URL begins with `az://` or `s3://`",
        )
    if options.aks is not None and (options.kubeconfig or options.context):
        raise UsageError(
            f"the target `{context.target}` names a cluster by `aks` and by a kubeconfig",
            hint="leave `kubeconfig` and `context` out, or leave `aks` out",
        )
    return KubernetesBackend(msgspec.structs.replace(options, image=context.image or options.image), context)


def _checks(targets: Sequence[Target], context: CheckContext) -> Iterator[Check]:
    from gofer.backends.kubernetes.checks import kubernetes_checks  # most commands check nothing

    return kubernetes_checks(targets, context)


def _set_up(name: str, context: CheckContext) -> Setup:
    from gofer.backends.kubernetes.set_up import set_up  # most commands add no target

    return set_up(name, context)


KIND = Kind(
    KubernetesOptions,
    make,
    capabilities=capabilities,
    has_jobs=False,
    checks=KindChecks("kubernetes", _checks, ("az://", "s3://")),
    set_up=_set_up,
)
