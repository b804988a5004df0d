"""The options of a target of kind `ssh`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from gofer.backends.base import Capabilities
from gofer.transport.ssh import Login

if TYPE_CHECKING:
    from gofer.transport.ssh import Login

Host = Annotated[str, Meta(min_length=1, pattern=r"^[^\s/-][^\s/]*$(?!\n)")]


class SshOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Machines reached by `ssh HOST`, with the user's settings of ~/.ssh/config."""

    hosts: Annotated[
        tuple[Host, ...],
        Meta(min_length=1, description="Hosts for `ssh`: user@host, or names of ~/.ssh/config"),
    ]
    gpus_per_node: (
        Annotated[
            int, Meta(ge=0, le=1024, description="GPUs of each machine (default: as its driver reports)")
        ]
        | None
    ) = None
    shared: Annotated[bool, Meta(description="Whether the store is one folder that all machines share")] = (
        False
    )
    python: Annotated[
        str, Meta(min_length=1, pattern=r"^[^\n]*$(?!\n)", description="Python 3.8 or newer on the machines")
    ] = "python3"
    folder: Annotated[str, Meta(min_length=1, description="The folder for gofer's files on each machine")] = (
        "~/.gofer"
    )
    patience: Annotated[
        float,
        Meta(
            description="How long a machine may not answer before its runs are lost",
            extra={"duration": "positive"},
        ),
    ] = 7 * 86400.0


def login_to(options: SshOptions, host: str) -> Login:
    return Login(host, options.python, options.folder)


def capabilities(options: SshOptions) -> Capabilities:
    return Capabilities(holds_runs=True, patience_s=options.patience, machines=options.hosts)
