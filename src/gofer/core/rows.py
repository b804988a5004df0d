"""`{column}` in the command of an array, replaced by a row's value; one rule for laptop and node.

Only a brace pair round a name is a placeholder. `{{name}}` is the text `{name}`. All other braces are left
alone, so JSON, `awk '{ print $1 }'`, `find -exec {}` and a shell's `${HOME}` pass as they are.
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Sequence

NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
# `{{{name}}}` comes first: the value between two braces, not an escape with a brace on either side.
_BRACES = re.compile(r"(?<!\$)(?:\{\{\{(" + NAME + r")\}\}\}|\{\{(" + NAME + r")\}\}|\{(" + NAME + r")\})")


def placeholders(command: Sequence[str]) -> List[str]:
    """The names that `substitute` would look up, each once, in order."""
    names: Dict[str, None] = {}
    for word in command:
        for match in _BRACES.finditer(word):
            if match.group(2) is None:
                names[match.group(1) or match.group(3)] = None
    return list(names)


def substitute(command: Sequence[str], values: Mapping[str, str]) -> List[str]:
    """The command of one row; KeyError for a placeholder without a value.

    Without values it is no array's command, and every brace stays as it is. A value is never searched again,
    so one that holds braces arrives whole.
    """
    if not values:
        return list(command)

    def replaced(match: re.Match[str]) -> str:
        framed, escaped, name = match.groups()
        if escaped is not None:
            return "{" + escaped + "}"
        return values[name] if framed is None else "{" + values[framed] + "}"

    return [_BRACES.sub(replaced, word) for word in command]
