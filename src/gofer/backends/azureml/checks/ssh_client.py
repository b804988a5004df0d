"""Check what shells in runs and tunnels need on this machine: ssh, its configuration, a key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gofer.backends.azureml.checks.target_resources import options_of
from gofer.backends.azureml.shell import public_key
from gofer.backends.ssh_client import check_config, check_key, check_program
from gofer.config.paths import home_folder
from gofer.errors import GoferError
from gofer.model.checks import Check, Status

if TYPE_CHECKING:
    from gofer.config.targets import Target


def shell_checks(environ: Mapping[str, str], targets: Sequence[Target]) -> Iterator[Check]:
    """Check the machine, then the targets that offer shells."""
    yield check_program(environ)
    folder = home_folder(environ) / ".ssh"
    yield check_config(folder / "config")
    yield check_key(folder)
    for target in targets:
        yield from _key_of(environ, target)


def _key_of(environ: Mapping[str, str], target: Target) -> Iterator[Check]:
    """Check the key of a target, if the target offers shells in its runs."""
    if not options_of(target).interactive:
        return
    what = f"target {target.name} ssh key"
    try:
        text = public_key(options_of(target).ssh_public_key, str(home_folder(environ)))
        yield Check(what, Status.OK, " ".join(text.split()[::2]))
    except GoferError as error:
        yield Check(what, Status.FAIL, error.message, error.hint)
