"""Turns the error output of `ssh` into one line with the cause and a hint. Pure."""

from __future__ import annotations

from gofer.errors import Unreachable

# A part of ssh's message, what it means, and the command that helps. The first match wins.
_CAUSES = (
    (
        "Host key verification failed",
        "its host key is not known on this machine, or has changed",
        "run `ssh {host}` once, and compare the fingerprint",
    ),
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed",
        "ask its administrator whether the change is right; then `ssh-keygen -R {host}`",
    ),
    (
        "Permission denied",
        "it does not accept any of your keys",
        "`ssh-copy-id {host}`, or `ssh-add` if the key has a passphrase",
    ),
    (
        "Too many authentication failures",
        "it was offered too many keys",
        "set `IdentityFile` for {host} in ~/.ssh/config",
    ),
    ("Could not resolve hostname", "the host name is unknown", "check the name; `ssh {host}` should work"),
    ("Connection refused", "no SSH server listens there", "check that it is up: `ssh {host}`"),
    ("No route to host", "no network leads to it", "check that it is up, and your network: `ssh {host}`"),
    ("Network is unreachable", "no network leads to it", "check your network: `ssh {host}`"),
    ("Connection timed out", "it did not answer", "check that it is up, and your network: `ssh {host}`"),
    ("timed out", "it did not answer", "check that it is up, and your network: `ssh {host}`"),
    (
        "command not found",
        "the target's Python is not installed there",
        "set another one in the target: `python: /path/to/python3`",
    ),
    (
        "No such file or directory",
        "the target's Python is not installed there",
        "set another one in the target: `python: /path/to/python3`",
    ),
    ("Connection closed", "it closed the connection", "try `ssh {host}`"),
    ("Connection reset", "the connection was lost", "try `ssh {host}`"),
    ("Broken pipe", "the connection was lost", "try `ssh {host}`"),
)
_CUT = 255


def explain(host: str, status: int, complaints: str) -> Unreachable:
    """The error for an `ssh` that ended without an answer."""
    for words, meaning, mend in _CAUSES:
        if words in complaints:
            return Unreachable(f"{host} cannot be reached: {meaning}", hint=mend.format(host=host))
    last = next((line.strip() for line in reversed(complaints.splitlines()) if line.strip()), "")
    shown = f": {last}" if last else ""
    if status == _CUT or status < 0:
        return Unreachable(f"the connection to {host} was lost{shown}", hint=f"`ssh {host}` should work")
    return Unreachable(
        f"the agent on {host} ended with status {status}{shown}", hint=f"try `ssh {host} python3 -V`"
    )
