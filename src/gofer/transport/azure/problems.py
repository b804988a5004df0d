"""The errors of Azure: its error answers as gofer's errors, nobody signed in, packages not installed.

No error contains a token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gofer.core.json_text import parse_json
from gofer.errors import BackendError, CredentialError, GoferError, Unreachable
from gofer.transport.azure.profile import DEFAULT, in_profile, login_command, show_command

_ACTION = re.compile(r"perform action '([^']+)'")
_SCOPE = re.compile(r"over scope '([^']+)'")
_MOST = 600
# The smallest built-in role that allows what gofer does, by a part of the refused action's name.
_ROLES = (
    ("virtualClusters", "a role that may submit to the virtual cluster"),
    ("/computes/", "AzureML Compute Operator"),
    ("MachineLearningServices", "AzureML Data Scientist"),
    ("Microsoft.ContainerService", "Azure Kubernetes Service Contributor Role"),
    ("Microsoft.Resources", "Contributor"),
    ("Microsoft.Storage", "Storage Blob Data Contributor"),
    ("", "Reader"),
)


class Answered(BackendError):
    """The service answered with an error: its status, code and message."""

    def __init__(self, message: str, status: int, code: str, words: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.words = words


class ResourceNotFound(Answered):
    """The resource does not exist."""


class RequestRejected(Answered):
    """The request itself is wrong, and would be refused again."""


class NobodySignedIn(CredentialError):
    """No source has a token."""

    def __init__(self, profile: str = DEFAULT) -> None:
        self.profile = profile
        where = "" if profile == DEFAULT else f" in the profile `{profile}`"
        more = ", or `az login`" if profile == DEFAULT else ""
        super().__init__(f"not signed in to Azure{where}", hint=f"{login_command(profile)}{more}")


def not_installed(what: str) -> GoferError:
    """The error for a function that needs a package of the extra `azure`."""
    return GoferError(f"{what} needs packages that are not installed", hint="`pip install 'gofer[azure]'`")


def from_answer(
    what: str, status: int, headers: Mapping[str, str], body: bytes, profile: str = DEFAULT
) -> GoferError:
    """The error for an answer to the request `what`, such as `PUT jobs/r1`, by the login of `profile`."""
    code, words = read_error(body)
    shown = f"{what}: {words or f'Azure answered {status}'}" + (f" ({code})" if code else "")
    if status == 401:
        return CredentialError(
            f"Azure refuses the login{in_profile(profile)} for {what}", hint=login_command(profile)
        )
    if status == 403:
        return _forbidden(what, code, words, profile)
    if status == 404:
        return ResourceNotFound(shown, status, code, words)
    if status in (408, 429) or status >= 500:
        after = headers.get("retry-after")
        wait = f"; it asks to wait for {after} s" if after else ""
        return Unreachable(f"Azure cannot answer now: {shown}{wait}", hint="try again later")
    return RequestRejected(shown, status, code, words)


def read_error(body: bytes) -> tuple[str, str]:
    """Code and message of ARM's error, with the innermost code if there is one; empty when it is no such
    error.
    """
    try:
        document: Any = parse_json(body)
    except ValueError:
        return "", ""
    error = document.get("error", document) if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return "", ""
    return innermost(error), one_line(error.get("message") or document.get("message") or "")


def innermost(error: Mapping[str, Any]) -> str:
    """The most specific code: the last `innerError`, or the one in the additional information."""
    code = str(error.get("code") or "")
    inner = error.get("innerError") or error.get("innererror")
    while isinstance(inner, dict):
        code = str(inner.get("code") or code)
        inner = inner.get("innerError") or inner.get("innererror")
    # These codes say only who is at fault; the details are in the additional information.
    if code in ("", "UserError", "SystemError", "ServiceError"):
        for more in error.get("additionalInfo") or ():
            info = more.get("info") if isinstance(more, dict) else None
            if isinstance(info, dict) and more.get("type") == "InnerError" and info.get("value"):
                return str(info["value"])
    return code


def one_line(text: object) -> str:
    words = " ".join(str(text).split())
    return (words if len(words) <= _MOST else f"{words[:_MOST]}…").rstrip(".")


def _forbidden(what: str, code: str, words: str, profile: str) -> CredentialError:
    action, scope = _ACTION.search(words), _SCOPE.search(words)
    if not action:
        return CredentialError(
            f"the login has no right to do this: {what}{f' ({code})' if code else ''}",
            hint=f"{show_command(profile)} shows who is signed in; ask for a role, or "
            f"{login_command(profile)} as another user",
        )
    role = next(role for part, role in _ROLES if part in action[1])
    where = f" on {scope[1]}" if scope else ""
    return CredentialError(
        f"the login lacks the right `{action[1]}`{where}",
        hint=f"ask an owner for the role `{role}`; {show_command(profile)} shows who is signed in",
    )
