"""Find what a command wrote beside its working copy, for example as `../results`.

The folder above a working copy is gofer's own and is removed with the copy. So the outcome of a run names
such files, and no row of an array finds those of an earlier row.
"""

from __future__ import annotations

import os
from typing import Sequence, Set

from gofer.core.code import trees
from gofer.core.outcome import Outcome
from gofer.node import background


def list_names(code: str) -> Set[str]:
    """The names beside the working copy `code`, without files of gofer, which are named after the copy."""
    folder, copy = os.path.split(code)
    try:
        return {name for name in os.listdir(folder) if name != copy and not name.startswith(f"{copy}.")}
    except OSError:  # the command may have removed the folder
        return set()


def remove_all(code: str) -> None:
    """Remove everything beside the working copy but the files of gofer. OSError when that fails."""
    for name in list_names(code):
        trees.remove_tree(os.path.join(os.path.dirname(code), name))


def name_lost(found: Outcome, names: Sequence[str]) -> Outcome:
    """The outcome with a sentence about files beside the copy, if there are any."""
    if not names:
        return found
    shown = background.list_in_words(f"../{background.printable_name(name)}" for name in names)
    lost = f"outside of the code folder it wrote {shown}, which is not kept"
    return found.with_detail(f"{lost}: write below it, or to $GOFER_OUTPUT_DIR")
