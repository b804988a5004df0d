"""Data that a job of the toolkit's first format had copied to each node, as folders and as the paths it had.

The toolkit put `data_dir` below /tmp: `me/data` was `/tmp/data`, with nothing but the sub-folders that were
named, if any were. Scripts, and the code that they start, name it so. gofer brings each folder beside the
code; the set-up of the job lets the older paths lead there.
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import NamedTuple

from gofer.importers.draft import safe_name
from gofer.importers.keys import SheetKeys

_ROOT = "/tmp"
# The copies of a machine are shared by its runs, so that those of one job find the link they would make.
_LINK = """\
# The toolkit had its data below /tmp; these paths lead to where it is now.
link() {
  mkdir -p "$(dirname "$2")"
  [ -e "$2" ] || rm -f "$2"
  [ "$1" -ef "$2" ] || ln -sT "$(readlink -f "$1")" "$2" || {
    echo "$2 is something else here: name $1 in the script, and take $2 out of the set-up" >&2
    exit 1
  }
}
"""


class ToolkitCopy(NamedTuple):
    """A folder beside the code, its path in the store, and the path below /tmp that the toolkit gave it."""

    folder: str
    path: str
    was: str


def copied_data(keys: SheetKeys) -> list[ToolkitCopy]:
    """What the file has copied; nothing for the second format, which names its data in the script."""
    experiment = keys.inner("experiment")
    base = (experiment.text("data_dir") or "").strip("/")
    if not keys.is_table("storage") or not experiment.boolean("copy_data") or not base:
        return []
    end = base.rpartition("/")[2]
    parts = [part.strip(" /") for part in (experiment.text("data_subdir") or "").split(";")]
    named = _folder_names([*dict.fromkeys(part for part in parts if part)])
    if not named:
        return [ToolkitCopy(safe_name(end), base, f"{_ROOT}/{end}")]
    return [ToolkitCopy(name, f"{base}/{part}", f"{_ROOT}/{end}/{part}") for name, part in named.items()]


def link_lines(found: Sequence[ToolkitCopy]) -> str:
    """Lines of a set-up that let the older paths lead to the folders; none without any."""
    lines = [f"link {quote(f'./{one.folder}')} {quote(one.was)}\n" for one in found]
    return _LINK + "".join(lines) if lines else ""


def _folder_names(parts: Sequence[str]) -> dict[str, str]:
    """The paths by the names of their folders: the last of its parts, or all of them where two end alike."""
    ends = [safe_name(part.rpartition("/")[2]) for part in parts]
    found: dict[str, str] = {}
    for part, end in zip(parts, ends, strict=True):
        wanted = end if ends.count(end) == 1 else safe_name(part.replace("/", "-"))
        name, number = wanted, 2
        while name in found or (name != end and name in ends):
            name, number = f"{wanted}-{number}", number + 1
        found[name] = part
    return found
