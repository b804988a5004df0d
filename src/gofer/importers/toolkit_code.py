"""Where a job of the VS Code toolkit had its code and its working folder: keys of the job file.

The toolkit mounted the working folder, so that all that a script wrote there stayed in the container. A run
of gofer works in a copy of its code, and `outputs_to` sends the new files of the copy to that folder. Without
`sync_code`, the code lay in that folder already.
"""

from __future__ import annotations

from gofer.importers.draft import Entry, ImportDraft, Value
from gofer.importers.keys import SheetKeys

SENT = "gofer sends the code of each run to the target's store by itself"
_STAYS = "a run works in a copy of the code; the files that it writes beside the code go there at its end"
_WRITTEN = ("rw_mount", "upload")


def import_work_folder(draft: ImportDraft, keys: SheetKeys, store: str | None, to: str) -> Entry:
    """`code`, `ignore` and `outputs_to` of the job; `store` is the account of a file of the first format."""
    if keys.is_table("storage"):
        return {
            **_work_dir(keys.inner("experiment"), store or "", to),
            **_ignore(keys.inner("experiment"), to),
        }
    sync = keys.inner("synchronization")
    sync.dropped("target", SENT)
    return {**_code_row_place(draft, keys, to), **_ignore(sync, to)}


def code_row(keys: SheetKeys) -> str:
    """The name of the row of `io` that held the code, in the second format."""
    return keys.inner("synchronization").text("target") or ""


def is_written(row: SheetKeys) -> bool:
    """Whether a job could write to the row."""
    return (row.text("mode") or "rw_mount") in _WRITTEN


def _work_dir(experiment: SheetKeys, store: str, to: str) -> Entry:
    path = (experiment.text("workdir") or "").strip("/")
    is_synchronised = experiment.boolean("sync_code") is not False
    if not path:
        whole = "it was the whole container; name a folder of it as `outputs_to`"
        experiment.dropped("workdir", f"{whole} of the job to keep new files there")
        experiment.dropped("sync_code", SENT if is_synchronised else f"{whole} and as `code` of the job")
        return {}
    place: Entry = {"store": store, "path": path}
    experiment.changed("workdir", f"{to}: outputs_to", _STAYS)
    if is_synchronised:
        experiment.dropped("sync_code", SENT)
        return {"outputs_to": place}
    experiment.changed("sync_code", f"{to}: code", f"the code that lies in `{path}` of the container")
    return {"code": {**place}, "outputs_to": place}


def _code_row_place(draft: ImportDraft, keys: SheetKeys, to: str) -> Entry:
    for row in keys.rows("io"):
        store, path = row.text("datastore") or "", (row.text("path") or "").strip("/")
        is_code = row.text("name") and row.text("name") == code_row(keys)
        if is_code and path and draft.has_store(store) and is_written(row):
            row.changed("path", f"{to}: outputs_to", _STAYS)
            return {"outputs_to": {"store": store, "path": path}}
    return {}


def _ignore(keys: SheetKeys, to: str) -> Entry:
    folders = [part.strip().strip("/") for part in (keys.text("ignore_dir") or "").split(";")]
    patterns: list[Value] = [f"{folder}/" for folder in folders if folder]
    keys.changed("ignore_dir", f"{to}: ignore", "patterns as in `.gitignore`")
    return {"ignore": patterns} if patterns else {}
