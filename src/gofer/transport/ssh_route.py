"""What the person's settings for `ssh` say of the way to a host: jump hosts, and shared connections."""

from __future__ import annotations

from typing import NamedTuple

from gofer.errors import GoferError
from gofer.transport import process

_PATIENCE_S = 20.0


class Route(NamedTuple):
    """The way to a host. `jumps` are the hosts of ProxyJump, the nearest one to this machine first. `shares`:
    connections are shared (ControlPath).
    """

    jumps: tuple[str, ...] = ()
    shares: bool = False


def find_route(host: str, via: str = "") -> Route:
    """The way that `ssh` would take to the host, or through the hosts `via`, separated by commas. Blocks for
    some milliseconds: `ssh` reads its settings and connects to nothing. A plain way where it cannot say.
    """
    around = ["-J", via] if via else []
    try:
        done = process.run(["ssh", "-G", *around, "--", host], timeout_s=_PATIENCE_S)
    except GoferError:  # the next `ssh` says what is wrong
        return Route()
    lines = (line.partition(" ") for line in done.stdout.decode("utf-8", "replace").splitlines())
    settings = {name: value for name, _, value in lines}
    jumps = tuple(_as_host(jump) for jump in settings.get("proxyjump", "").split(",") if jump)
    return Route(() if host in jumps else jumps, "controlpath" in settings)


def _as_host(jump: str) -> str:
    """`me@host:22` as a host that the command line of `ssh` understands."""
    _, _, end = jump.rpartition("@")
    has_port = end.rpartition("]")[2].startswith(":") if end.startswith("[") else ":" in end
    return f"ssh://{jump}" if has_port else jump
