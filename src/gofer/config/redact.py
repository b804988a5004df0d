"""Keeps secret values out of everything that gofer prints.

There is one registry for the process, because the code that prints an error does not know the code that
looked the secret up. Values shorter than four characters are not masked: masking them would make every
message unreadable.
"""

from __future__ import annotations

import re

MASK = "***"
# Signatures of Azure, Amazon and Google. An address that a person typed has a secret that no setting names.
_SIGNATURE = re.compile(r"((?:[?&]sig|X-Amz-Signature|X-Goog-Signature)=)[^&\s`'\"]+", re.IGNORECASE)
_SHORTEST = 4
# Only long lines of a key file are secret; a short one, such as a brace, occurs in many harmless texts.
_SHORTEST_LINE = 12

_SENSITIVE = ("secret", "token", "password", "passwd", "passphrase", "credential", "api_key", "apikey")
_SENSITIVE_ENDS = ("sas", "key", "pat", "pwd")


class Redactor:
    """The forms of the values to mask. Adding a value is idempotent; any thread may call any method."""

    def __init__(self) -> None:
        self._forms: tuple[str, ...] = ()

    def remember(self, value: str) -> None:
        """Mask `value` from now on, also in its form in JSON, in a URL or in a Python string, and each of its
        lines.
        """
        forms = {form for form in _forms(value) if len(form) >= _SHORTEST}
        # The longest first: of two values of which one contains the other, both are masked completely.
        self._forms = tuple(sorted({*self._forms, *forms}, key=lambda form: (-len(form), form)))

    def mask(self, text: str) -> str:
        """`text` with `***` in place of every remembered value and of every signature in a URL."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return _SIGNATURE.sub(rf"\1{MASK}", text) if "ig" in text else text


_process = Redactor()
remember = _process.remember
mask = _process.mask


def is_sensitive(name: str) -> bool:
    """Whether the name of a key or variable says that its value is secret."""
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
