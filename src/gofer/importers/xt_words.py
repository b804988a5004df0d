"""Words in XT's values that XT itself replaces when it reads them."""

from __future__ import annotations

import os
import re
from getpass import getuser

from gofer.importers.draft import ImportDraft

_USER = re.compile(r"\$username\b")


def name_user(draft: ImportDraft, text: str) -> str:
    """The text with the person's name for `$username`; one without that word comes back as it is."""
    if not _USER.search(text):
        return text
    name = _login_name()
    draft.note(
        f"XT's `$username` is written out as `{name}`; in a file that others use too, `${{env:USER}}` says "
        "it in `stores`, `folders` and `job.env`"
    )
    return _USER.sub(lambda _: name, text)


def _login_name() -> str:
    """A container may give its user no name at all."""
    try:
        return getuser()
    except (KeyError, OSError):
        return str(os.getuid())
