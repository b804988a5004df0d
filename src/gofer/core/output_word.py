"""`{output}` in a command: the folder of the run's outputs. One rule for laptop and node. Pure.

A word that is `{output}`, begins with `{output}/` or has `={output}` means it; other braces stay. A column
of an array with that name wins.
"""

from __future__ import annotations

import re
from typing import List, Mapping, Sequence

from gofer.core.rows import substitute

NAME = "output"
_MEANT = re.compile(r"^\{output\}(?=/|\Z)|(?<==)\{output\}")


def is_output_word(word: str) -> bool:
    """Whether the word means the folder of outputs, or something in it."""
    return _MEANT.search(word) is not None


def show(command: Sequence[str], values: Mapping[str, str]) -> List[str]:
    """The command of a row as people see it: `{output}` stays, since only the node knows the folder."""
    return fill(command, values, f"{{{NAME}}}")


def fill(command: Sequence[str], values: Mapping[str, str], folder: str) -> List[str]:
    """The command with the values of an array's row, if any, and with the folder of outputs.

    KeyError for a placeholder without a value.
    """
    if NAME in values or not any(map(is_output_word, command)):
        return substitute(command, values)
    filled: List[str] = []
    for word in command:
        if not is_output_word(word):
            filled += substitute([word], values)
        elif values:
            filled += substitute([word], {**values, NAME: folder})
        else:
            filled.append(_MEANT.sub(lambda match: folder, word))
    return filled
