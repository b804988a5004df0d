"""What `ssh` complains of, as one sentence and the command that corrects it."""

from __future__ import annotations

import re

from gofer.errors import Unreachable
from gofer.text import quote_word

# A part of ssh's message, what it means, and the command that helps. The first match wins.
_CAUSES = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed",
        "ask its administrator whether the change is right; then `ssh-keygen -R {host}`",
    ),
    (
        "Host key verification failed",
        "its host key is not known on this machine",
        "`{login}` shows the fingerprint to compare, and asks whether it is right",
    ),
    (
        "Bad owner or permissions on",
        "ssh refuses a configuration file that others own or can write",
        "`chmod 600 ~/.ssh/config`",
    ),
    # ssh then opens a connection of its own, which the machine may refuse: that is not the cause.
    (
        "Session open refused",
        "too many commands use the open connection at once",
        "wait until some of them have ended; `MaxSessions` of its sshd is the limit",
    ),
    (
        "Permission denied",
        "it does not accept any of your keys",
        "`ssh-copy-id {host}`; if the key has a passphrase, `ssh-add` or `{login}`",
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
_MISSING_KEY = re.compile(r"Identity file (\S+) not accessible")
# The methods that the machine would accept next, such as `(publickey,keyboard-interactive)`.
_METHODS_LEFT = re.compile(r"Permission denied \(([a-z,-]+)\)")
# What `ssh` calls a host to which another program leads, such as the `ssh` to a jump host.
BEHIND_ANOTHER = "UNKNOWN port 65535"
# `ssh` found the socket of a connection that has ended, and continues without it.
_ENDED_SOCKET = re.compile(r"^Control socket connect\(.*\n?", re.MULTILINE)
_ASKING = {"password", "keyboard-interactive"}


class LoginNeeded(Unreachable):
    """A machine over SSH asks for a password or a code, or its host key must be confirmed, so a person has to
    log in on a terminal: `gofer login`.
    """


def login_command(host: str, target: str = "") -> str:
    """What a person types to open a connection to the host of a target, or to a host without one."""
    return f"gofer login {quote_word(target)}" if target else f"gofer login --host {quote_word(host)}"


def logout_command(host: str, target: str = "") -> str:
    """What a person types to close the connection that `login_command` opened."""
    return login_command(host, target).replace("gofer login", "gofer logout", 1)


def explain(host: str, status: int, complaints: str, target: str = "") -> Unreachable:
    """The error for an `ssh` that ended without an answer; LoginNeeded where a person has to log in.

    `target` is the target that reaches the host, for the hint.
    """
    login = login_command(host, target)
    complaints = _ENDED_SOCKET.sub("", complaints)
    missing = _MISSING_KEY.search(complaints)
    methods = _METHODS_LEFT.search(complaints)
    asks = _ASKING.intersection(methods[1].split(",")) if methods else set()
    if missing and "Permission denied" in complaints and not asks:
        return Unreachable(
            f"{host} cannot be reached: the key {missing[1]} does not exist",
            hint=f"`ssh-keygen -f {missing[1]}` makes it, `ssh-copy-id {host}` registers it; or correct "
            f"`IdentityFile` in ~/.ssh/config",
        )
    for words, meaning, mend in _CAUSES:
        if words in complaints:
            if words == "Permission denied" and methods and asks:
                return _asking(host, login, takes_keys="publickey" in methods[1])
            kind = LoginNeeded if words == "Host key verification failed" else Unreachable
            hint = mend.format(host=host, login=login)
            return kind(f"{host} cannot be reached: {meaning}", hint=hint)
    last = next((line.strip() for line in reversed(complaints.splitlines()) if line.strip()), "")
    shown = f": {last}" if last else ""
    if status == _CUT or status < 0:
        return Unreachable(f"the connection to {host} was lost{shown}", hint=f"`ssh {host}` should work")
    return Unreachable(
        f"the agent on {host} ended with status {status}{shown}", hint=f"try `ssh {host} python3 -V`"
    )


def _asking(host: str, login: str, *, takes_keys: bool) -> LoginNeeded:
    hint = f"`{login}` asks on the terminal, and keeps the connection open for hours"
    if takes_keys:
        words = "it does not accept any of your keys, and would ask for a password"
        return LoginNeeded(
            f"{host} cannot be reached: {words}", hint=f"{hint}; or register a key: `ssh-copy-id {host}`"
        )
    words = "it asks for a password or a code, and no connection to it is open"
    return LoginNeeded(f"{host} cannot be reached: {words}", hint=hint)
