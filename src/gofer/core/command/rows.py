"""Replace `{column}` in the command of an array by a row's value. The same rule on laptop and node. Pure.

Only braces around a name are a placeholder. `{{name}}` is the text `{name}`. All other braces stay, so JSON,
`awk '{ print $1 }'`, `find -exec {}` and a shell's `${HOME}` need no escapes.
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Sequence

NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
# `{{{name}}}` is tried first: it is the value in braces, not an escape with a brace on either side.
_BRACES = re.compile(r"(?<!\$)(?:\{\{\{(" + NAME + r")\}\}\}|\{\{(" + NAME + r")\}\}|\{(" + NAME + r")\})")


def placeholders(command: Sequence[str]) -> List[str]:
    """The names that `substitute` would look up, each once, in the order of the command."""
    names: Dict[str, None] = {}
    for word in command:
        for match in _BRACES.finditer(word):
            if match.group(2) is None:
                names[match.group(1) or match.group(3)] = None
    return list(names)


def substitute(command: Sequence[str], values: Mapping[str, str]) -> List[str]:
    """The command of one row; KeyError for a placeholder without a value.

    Without values the command belongs to no array, and every brace stays. Values are not searched for
    placeholders, so a value with braces stays as it is.
    """
    if not values:
        return list(command)

    def replaced(match: re.Match[str]) -> str:
        framed, escaped, name = match.groups()
        if escaped is not None:
            return "{" + escaped + "}"
        return values[name] if framed is None else "{" + values[framed] + "}"

    return [_BRACES.sub(replaced, word) for word in command]
