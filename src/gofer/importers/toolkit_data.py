"""Where a job of the VS Code toolkit had its code and its data: folders and the store of a target.

1.x keeps an account with its key in the file (`storage`); 2.x names datastores of the workspace (`io`).

The first format copied data to each node below /tmp: `data_dir: me/data` was `/tmp/data`, with only the
sub-folders that were named, if any were. Scripts and the code that they start use these paths. gofer brings
each folder beside the code, and the set-up of the job makes links from the older paths.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote
from typing import NamedTuple

from gofer.importers.accounts import blob_store, runs_folder
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.keys import SheetKeys
from gofer.importers.target_store import CodeArchive, choose_store
from gofer.importers.toolkit_code import code_row, is_written

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

_MODES = {"ro_mount": "mount", "rw_mount": "mount", "download": "copy", "upload": "upload"}
_ROW = ("name", "datastore", "path", "mode")
_HOLE = re.compile(r"\$\{\{\s*([^{}]*?)\s*\}\}")


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


def place_rows(script: str, keys: SheetKeys) -> str:
    """The script with its `${{row}}` as they are in a run: `./row`, or `.` for the row that held the code."""
    code = code_row(keys)
    names = [row.text("name") for row in keys.rows("io")]
    places = {name: "." if name == code else f"./{safe_name(name)}" for name in names if name}
    return _HOLE.sub(lambda match: places.get(match[1], match[0]), script)


def import_data(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
    """`folders` of the target, and of the first format its `store`."""
    return _storage(draft, keys, target) if keys.is_table("storage") else _io(draft, keys, target)


# -- 2.x


def _io(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
    """Rows of inputs and outputs as folders; the file does not say where their datastores are."""
    code, folders = code_row(keys), dict[str, Entry]()
    for row in keys.rows("io"):
        name, store = row.text("name"), row.text("datastore")
        if not name or not store:
            _drop(row, "the row is not complete")
            draft.note(f"a row of `io` in `{row.place.where}` is not complete")
        elif name == code:
            _held_code(draft, row, name)
        elif not draft.has_store(store):
            _unknown(draft, keys, row, name, store)
        else:
            folders[safe_name(name)] = _folder(row, store, f"targets.{target}.folders.{safe_name(name)}")
    return {"folders": dict(folders)} if folders else {}


def runs_facts(draft: ImportDraft, keys: SheetKeys) -> Entry:
    """What the second format says of where runs would be kept: jobs that differ in it are on two targets."""
    place = None if keys.is_table("storage") else _written_place(draft, keys)
    if place is None:
        return {}
    return {"runs": [place.store, runs_folder(place.path) if place.store in draft.stores else ""]}


def import_runs(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
    """`store` of a target of the second format, where its runs are kept; the target has its final name."""
    if keys.is_table("storage"):
        return {}
    taken = choose_store(draft, target, _written_place(draft, keys))
    if taken.is_beside_code:
        for row in keys.rows("io"):
            if row.text("name") == code_row(keys):
                row.changed("datastore", f"targets.{target}.store", "runs are kept where the code lay")
    return taken.entry


def _drop(row: SheetKeys, why: str) -> None:
    for key in _ROW:
        row.dropped(key, why)


def _held_code(draft: ImportDraft, row: SheetKeys, name: str) -> None:
    hole = f"${{{{{name}}}}}"
    _drop(row, f"the code lay there, which gofer brings into the working folder itself: `{hole}` is `.`")
    draft.note(
        f"`{name}` of `io` held the code. A run works in a copy of its own: `{hole}` is `.` in the script. "
        "What else lay there is not in a run"
    )


def _unknown(draft: ImportDraft, keys: SheetKeys, row: SheetKeys, name: str, store: str) -> None:
    _drop(row, f"the file does not say where the datastore `{store}` is; add a store of that name first")
    text = (
        f"the file does not say where the datastore `{store}` of `{name}` is: put `{store}: {{url: "
        "'az://CONTAINER', account: ACCOUNT}` below `stores:` of gofer.yaml and import again"
    )
    if name in _HOLE.findall("\n".join(keys.inner("experiment").texts("script"))):
        text += f"; the script names it, and without it a run fails where it uses `./{safe_name(name)}`"
    draft.note(text)


def _folder(row: SheetKeys, store: str, to: str) -> Entry:
    theirs = row.text("mode") or "rw_mount"
    mode = _MODES.get(theirs, "mount")
    folder: Entry = {"store": store, "path": (row.text("path") or "").strip("/") or "/", "mode": mode}
    words = f"`{mode}`"
    if theirs == "ro_mount":
        folder["read_only"] = True
        words += ", `read_only`"
    for key, ours in (("name", ""), ("datastore", ".store"), ("path", ".path")):
        row.carried(key, f"{to}{ours}")
    row.changed("mode", f"{to}.mode", words)
    return folder


def _written_place(draft: ImportDraft, keys: SheetKeys) -> CodeArchive | None:
    """The row of the code, else one that jobs wrote to, of those whose store is known."""
    code = code_row(keys)
    known = [row for row in keys.rows("io") if draft.has_store(row.text("datastore") or "")]
    for row in known:
        if row.text("name") and row.text("name") == code:
            return CodeArchive(row.text("datastore") or "", f"{(row.text('path') or '').strip('/')}/code")
    written = [row for row in known if row.text("name") and is_written(row)]
    return CodeArchive(written[0].text("datastore") or "") if written else None


# -- 1.x


def _storage(draft: ImportDraft, keys: SheetKeys, target: str) -> Entry:
    """An account, where the code lay and, with `copy_data`, the data to copy to the node."""
    storage, experiment = keys.inner("storage"), keys.inner("experiment")
    wanted = storage.text("datastore_name") or storage.text("account_name") or target
    store = blob_store(draft, storage, wanted)
    storage.changed("datastore_name", f"stores.{store}", "the name of the store")
    found = copied_data(keys)
    if not found:
        for key in ("copy_data", "data_dir", "data_subdir"):
            experiment.dropped(key, "no data was copied")
        return {"store": store}
    return {"store": store, "folders": dict(_folders(experiment, store, target, found))}


def _folders(keys: SheetKeys, store: str, target: str, found: Sequence[ToolkitCopy]) -> dict[str, Entry]:
    to = f"targets.{target}.folders"
    where = ", ".join(f"`{one.path}` is `./{one.folder}`" for one in found)
    links = ", ".join(f"`{one.was}`" for one in found)
    keys.changed("copy_data", to, "`mode: copy`")
    keys.changed("data_dir", to, f"on the node {where} beside the code; the set-up lets {links} lead there")
    keys.changed("data_subdir", to, f"each is a folder of its own: {where}")
    return {one.folder: {"store": store, "path": one.path, "mode": "copy"} for one in found}
