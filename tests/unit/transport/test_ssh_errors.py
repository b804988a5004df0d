"""What OpenSSH 9.2 writes when it cannot connect becomes one sentence and the command that corrects it."""

from __future__ import annotations

import pytest

from gofer.transport.ssh_errors import LoginNeeded, explain

NEW_HOST = "No ED25519 host key is known for gpu1 and you have requested strict checking.\n"
BAD_KEY = "Host key verification failed.\n"
CHANGED = "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
NO_KEY = "Warning: Identity file /home/me/.ssh/id_lab not accessible: No such file or directory.\n"
DENIED = "me@gpu1: Permission denied (publickey).\n"
ASKS = "me@gpu1: Permission denied (keyboard-interactive).\n"
ASKS_OR_KEY = "me@gpu1: Permission denied (publickey,password).\n"
FULL = "mux_client_request_session: session request failed: Session open refused by peer\n"
ENDED = "Control socket connect(/tmp/gofer-0/ab12): Connection refused\n"


@pytest.mark.parametrize(
    ("complaints", "meaning", "command"),
    [
        (NEW_HOST + BAD_KEY, "its host key is not known on this machine", "`gofer login --host gpu1`"),
        (
            NO_KEY + ENDED + ASKS,
            "it asks for a password or a code, and no connection to it is open",
            "`gofer login --host gpu1`",
        ),
        (
            ASKS_OR_KEY,
            "it does not accept any of your keys, and would ask for a password",
            "`ssh-copy-id gpu1`",
        ),
        (FULL + ASKS, "too many commands use the open connection at once", "`MaxSessions`"),
        (ENDED + "kex_exchange_identification: Connection closed by remote host\n", "it closed the", ""),
        (CHANGED + BAD_KEY, "its host key has changed", "`ssh-keygen -R gpu1`"),
        (DENIED, "it does not accept any of your keys", "`ssh-copy-id gpu1`"),
        (
            NO_KEY + DENIED,
            "the key /home/me/.ssh/id_lab does not exist",
            "`ssh-keygen -f /home/me/.ssh/id_lab`",
        ),
        (
            "Bad owner or permissions on /home/me/.ssh/config\n",
            "ssh refuses a configuration file that others own or can write",
            "`chmod 600 ~/.ssh/config`",
        ),
    ],
)
def test_the_cause_is_named_with_the_command_that_corrects_it(
    complaints: str, meaning: str, command: str
) -> None:
    error = explain("gpu1", 255, complaints)
    assert error.message.startswith(f"gpu1 cannot be reached: {meaning}")
    assert command in (error.hint or "")


def test_the_hint_names_the_target_and_the_error_says_that_a_person_is_needed() -> None:
    error = explain("me@gpu1", 255, ASKS, "my lab")
    assert isinstance(error, LoginNeeded) and error.hint and "`gofer login 'my lab'`" in error.hint
    assert isinstance(explain("gpu1", 255, BAD_KEY), LoginNeeded)
    assert not isinstance(explain("gpu1", 255, DENIED), LoginNeeded)


def test_a_missing_key_that_was_not_needed_is_no_cause() -> None:
    assert "no SSH server" in explain("gpu1", 255, NO_KEY + "Connection refused\n").message
