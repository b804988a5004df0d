"""What a person reads when Azure refuses a SAS."""

from __future__ import annotations

import pytest

from gofer.errors import CredentialError
from gofer.objects.facts import ObjectsError
from gofer.storage.credentials import OpenedStore, sas_facts
from gofer.storage.explain import Circumstances, FailedOperation, explain

SAS = "sp=rl&sip=10.0.0.0-10.0.0.9&spr=https&si=weekly&sig=dummy"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "AuthorizationSourceIPMismatch",
            "is for other addresses than this machine's (`sip=10.0.0.0-10.0.0.9`)",
        ),
        ("AuthorizationProtocolMismatch", "is only for `https`"),
        ("AuthorizationPermissionMismatch", "lacks the permission `read`"),
        ("AuthenticationFailed", "is refused; its access policy `weekly` may have ended"),
    ],
)
def test_each_code_of_the_service_has_its_sentence(code: str, words: str) -> None:
    entry = OpenedStore("az://box@acct/me", name="blob")
    found = Circumstances(entry, "box", "acct", "sas", sas_facts(SAS))
    error = explain(ObjectsError(403, code, "refused"), FailedOperation("read", "k"), found)
    assert isinstance(error, CredentialError)
    assert error.message == f"cannot read 'k' in the store `blob` (az://box@acct/me): its SAS {words}"
