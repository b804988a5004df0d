"""What a target of kind `ssh` says about its machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

if TYPE_CHECKING:
    from gofer.transport.ssh import Login

Host = Annotated[str, Meta(min_length=1, pattern=r"^[^\s/-][^\s/]*$(?!\n)")]


class SshOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Machines reached by `ssh HOST`; what a person set up for that in ~/.ssh/config holds."""

    hosts: Annotated[
        tuple[Host, ...],
        Meta(min_length=1, description="What `ssh` is told: user@host, or a name of ~/.ssh/config"),
    ]
    gpus_per_node: (
        Annotated[
            int, Meta(ge=0, le=1024, description="GPUs of each machine; by default those its driver shows")
        ]
        | None
    ) = None
    shared: Annotated[bool, Meta(description="The target's store, a folder, is the same on all machines")] = (
        False
    )
    python: Annotated[
        str, Meta(min_length=1, pattern=r"^[^\n]*$(?!\n)", description="Python 3.8 or newer there")
    ] = "python3"
    folder: Annotated[str, Meta(min_length=1, description="Where gofer keeps its own files there")] = (
        "~/.gofer"
    )
    patience: Annotated[
        float,
        Meta(
            description="A run is lost when its machine has not answered for this long",
            extra={"duration": "positive"},
        ),
    ] = 7 * 86400.0


def login_to(options: SshOptions, host: str) -> Login:
    from gofer.transport.ssh import Login

    return Login(host, options.python, options.folder)
