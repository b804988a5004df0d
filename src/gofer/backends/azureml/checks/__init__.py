"""What commonly fails with Azure: one check for each thing, with a hint. The checks submit nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gofer.backends.azureml.checks.login import Access
    from gofer.backends.kind import CheckContext
    from gofer.config.targets import Target
    from gofer.model.checks import Check


def azure_checks(targets: Sequence[Target], context: CheckContext) -> Iterator[Check]:
    """The checks of these targets, and of the login in use when there are none. Asks the service; blocks."""
    from gofer.backends.azureml.checks import login, service  # most commands check nothing
    from gofer.backends.azureml.checks.ssh_client import shell_checks
    from gofer.backends.azureml.checks.target_resources import options_of

    accesses = _accesses(targets, context)
    first = next((one for one in accesses.values() if one.needs_az), next(iter(accesses.values())))
    yield from login.program_checks(context.environ, first)
    for profile, access in accesses.items():
        yield from login.login_checks(access, "login" if len(accesses) == 1 else f"login {profile}")
    yield from service.service_checks(first)
    for target in targets:
        access = accesses[context.logins.asking(options_of(target).profile)]
        if access.token is not None:
            yield from service.target_checks(access, target)
    yield from shell_checks(context.environ, targets)


def _accesses(targets: Sequence[Target], context: CheckContext) -> dict[str, Access]:
    """The access by profile, for each profile that the targets use, else for the active one."""
    from gofer.backends.azureml.checks.login import Access
    from gofer.backends.azureml.checks.target_resources import options_of

    found: dict[str, Access] = {}
    for target in targets:
        options = options_of(target)
        profile = context.logins.asking(options.profile)
        if profile not in found:
            found[profile] = Access(context, options.cloud, f"the target `{target.name}`", options.profile)
    if not found:
        access = Access(context)
        found[access.profile] = access
    return found
