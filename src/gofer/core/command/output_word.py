"""Replace `{output}` in a command by the folder of the run's outputs. The same rule on laptop and node. Pure.

`{output}` is replaced where it is a whole word, at the start of a word before `/`, or after `=`. Other braces
stay. A column `output` of an array takes precedence.
"""

from __future__ import annotations

import re
from typing import List, Mapping, Sequence

from gofer.core.command.rows import substitute

NAME = "output"
_OUTPUT = re.compile(r"^\{output\}(?=/|\Z)|(?<==)\{output\}")


def is_output_word(word: str) -> bool:
    """Whether the word names the folder of outputs or a path in it."""
    return _OUTPUT.search(word) is not None


def show(command: Sequence[str], values: Mapping[str, str]) -> List[str]:
    """The command of a row, for display. `{output}` stays, since only the node knows the folder."""
    return fill(command, values, f"{{{NAME}}}")


def fill(command: Sequence[str], values: Mapping[str, str], folder: str) -> List[str]:
    """The command with the values of an array's row, if any, and the folder of outputs filled in.

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
            filled.append(_OUTPUT.sub(lambda match: folder, word))
    return filled
