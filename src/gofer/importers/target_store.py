"""The store that a target of an imported file keeps its runs in, where the file gives it none by name.

A target in the project's own gofer.yaml that has a store keeps it, and one that can do without gets none.
"""

from __future__ import annotations

from typing import NamedTuple

from gofer.config.document import display
from gofer.config.layers import DEFAULT_STORE
from gofer.config.nodes import Scalar
from gofer.importers.accounts import runs_store
from gofer.importers.draft import Entry, ImportDraft
from gofer.importers.project_file import ProjectFile, read_project_file

_AZURE = "azureml"


class CodeArchive(NamedTuple):
    """Where a tool had the code: a store, and in it the path of the archive; None where only data was."""

    store: str
    path: str | None = None


class TakenStore(NamedTuple):
    """`store` of a target, or nothing, and whether it lies where the code lay."""

    entry: Entry
    is_beside_code: bool = False


def take_store(draft: ImportDraft, target: str, place: CodeArchive | None) -> TakenStore:
    """The store that the target has already, else gofer's own folder beside the code. Without a place that
    Azure ML can reach, nothing, and a note.
    """
    own = read_project_file(draft.folder)
    chosen = own.store_of(target)
    if chosen is not None:
        return TakenStore({"store": chosen})
    if not _needs_store(own, target):
        return TakenStore({})
    if _is_blob(own, DEFAULT_STORE):
        draft.note(_in_default(target, own))
        return TakenStore({})
    if place is not None and (place.store in draft.stores or _is_blob(own, place.store) is not False):
        store = runs_store(draft, place.store, place.path)
        draft.note(f"runs on `{target}` are kept in the store `{store}`; `targets.{target}.store` says so")
        return TakenStore({"store": store}, place.path is not None)
    draft.note(_no_place(target))
    return TakenStore({})


def _in_default(target: str, own: ProjectFile) -> str:
    where = f" of `{display(own.path)}`" if own.path else ""
    return (
        f"runs on `{target}` are kept in the store `{DEFAULT_STORE}`{where}; a file that is read without "
        f"that one needs the same store under a name of its own, and `store: NAME` in the target `{target}`"
    )


def _no_place(target: str) -> str:
    return (
        f"the file does not say where runs on `{target}` could be kept, and on Azure ML a target needs a "
        "store whose URL begins with `az://`: put `NAME: {url: 'az://CONTAINER/gofer', account: ACCOUNT}` "
        f"below `stores:` and `store: NAME` into the target `{target}`"
    )


def _needs_store(own: ProjectFile, target: str) -> bool:
    """Only Azure ML cannot do with the store that every project has; a kind left open may become that one."""
    kind = own.target(target).get("kind")
    return not isinstance(kind, Scalar) or kind.text == _AZURE


def _is_blob(own: ProjectFile, store: str) -> bool | None:
    """Whether the store is in an account of Azure's; None where gofer.yaml does not say."""
    url = own.store(store).get("url")
    return url.text.startswith("az://") if isinstance(url, Scalar) else None
