"""From what `ssh` complained about to one line that says what is wrong and what mends it. Pure."""

from __future__ import annotations

from gofer.errors import Unreachable

# What ssh says, what it means, and the command that mends it.
_CAUSES = (
    (
        "Host key verification failed",
        "its host key is not known here, or has changed",
        "`ssh {host}` once, and compare the fingerprint",
    ),
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed",
        "ask who runs it whether that is right; then `ssh-keygen -R {host}`",
    ),
    (
        "Permission denied",
        "it does not accept any of your keys",
        "`ssh-copy-id {host}`, or `ssh-add` if the key has a passphrase",
    ),
    (
        "Too many authentication failures",
        "it was offered too many keys",
        "set `IdentityFile` for it in ~/.ssh/config",
    ),
    ("Could not resolve hostname", "there is no such host", "check the name; `ssh {host}` should work"),
    ("Connection refused", "nothing listens there", "is it up? `ssh {host}`"),
    ("No route to host", "there is no way to it", "is it up, and are you on its network? `ssh {host}`"),
    ("Network is unreachable", "there is no way to it", "are you on its network? `ssh {host}`"),
    ("Connection timed out", "it did not answer", "is it up, and are you on its network? `ssh {host}`"),
    ("timed out", "it did not answer", "is it up, and are you on its network? `ssh {host}`"),
    (
        "command not found",
        "the Python named for it is not there",
        "name one in the target: `python: /path/to/python3`",
    ),
    (
        "No such file or directory",
        "the Python named for it is not there",
        "name one in the target: `python: /path/to/python3`",
    ),
    ("Connection closed", "it closed the connection", "`ssh {host}`"),
    ("Connection reset", "the connection was cut", "`ssh {host}`"),
    ("Broken pipe", "the connection was cut", "`ssh {host}`"),
)
_CUT = 255


def explain(host: str, status: int, complaints: str) -> Unreachable:
    """The error for an `ssh` that ended before its answer."""
    for words, meaning, mend in _CAUSES:
        if words in complaints:
            return Unreachable(f"{host} cannot be reached: {meaning}", hint=mend.format(host=host))
    last = next((line.strip() for line in reversed(complaints.splitlines()) if line.strip()), "")
    told = f": {last}" if last else ""
    if status == _CUT or status < 0:
        return Unreachable(f"the connection to {host} was cut{told}", hint=f"`ssh {host}` should work")
    return Unreachable(
        f"the agent on {host} ended with status {status}{told}", hint=f"`ssh {host} python3 -V`"
    )
