"""Keeps values that were revealed out of anything gofer says.

One registry for the process: what turns an error into text is far from what looked the secret up.
Values shorter than four characters are not masked, since masking them would garble every message.
"""

from __future__ import annotations

import re

MASK = "***"
# Of Azure, Amazon and Google. A person may have typed the address: then no setting knows its secret.
_SIGNATURE = re.compile(r"((?:[?&]sig|X-Amz-Signature|X-Goog-Signature)=)[^&\s`'\"]+", re.IGNORECASE)
_SHORTEST = 4
# Only a long line of a key file is telling; a short one, such as a brace, stands in many innocent texts.
_SHORTEST_LINE = 12

_SENSITIVE = ("secret", "token", "password", "passwd", "passphrase", "credential", "api_key", "apikey")
_SENSITIVE_ENDS = ("sas", "key", "pat", "pwd")


class Redactor:
    """The forms of the values to be masked. Adding is idempotent; any thread may call either verb."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()

    def remember(self, value: str) -> None:
        """Mask `value` from now on, also as it looks in JSON, a URL, a Python string, or line by line."""
        forms = {form for form in _forms(value) if len(form) >= _SHORTEST}
        # The longest first, so that a value that holds another one leaves no tail behind.
        self._forms = tuple(sorted({*self._forms, *forms}, key=lambda form: (-len(form), form)))

    def mask(self, text: str) -> str:
        """`text` with every remembered value replaced by `***`, and whatever stands as a URL's signature."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return _SIGNATURE.sub(rf"\1{MASK}", text) if "ig" in text else text


_process = Redactor()
remember = _process.remember
mask = _process.mask


def is_sensitive(name: str) -> bool:
    """Whether a key or a variable is one whose value people keep to themselves, judged by its name."""
    plain = name.lower().replace("-", "_")
    return any(word in plain for word in _SENSITIVE) or plain.rsplit("_", 1)[-1] in _SENSITIVE_ENDS


def _forms(value: str) -> set[str]:
    import json
    from urllib.parse import quote, quote_plus

    forms = {value, value.strip(), repr(value)[1:-1], json.dumps(value)[1:-1]}
    forms |= {json.dumps(value, ensure_ascii=False)[1:-1]}
    encodable = value.encode("utf-8", "surrogateescape")
    forms |= {quote(encodable, safe=""), quote(encodable), quote_plus(encodable)}
    lines = value.splitlines()
    if len(lines) > 1:
        forms |= {line.strip() for line in lines if len(line.strip()) >= _SHORTEST_LINE}
    return forms
