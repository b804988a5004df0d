"""The store that a target of an imported file keeps its runs in, where the file gives it none by name.

A target in the project's own gofer.yaml that has a store, or can do without, is left as it is.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from gofer.config.document import read_document
from gofer.config.files import find_project_file
from gofer.config.importers.accounts import runs_store
from gofer.config.importers.draft import Draft, Entry
from gofer.config.nodes import Node, Scalar, table
from gofer.config.paths import home_folder

_AZURE = "azureml"


class CodePlace(NamedTuple):
    """Where a tool had the code: a store, and in it the path of the archive; None where only data was."""

    store: str
    path: str | None = None


def take_store(draft: Draft, target: str, place: CodePlace | None) -> Entry:
    """`store` of the target: gofer's own folder beside the code. Without a place that Azure ML can reach,
    nothing, and a note.
    """
    path = find_project_file(draft.folder, home_folder(os.environ))
    own = read_document(path).entries if path else {}
    if not _needs_store(table(table(own.get("targets")).get(target))) or _is_blob(own, "default"):
        return {}
    if place is not None and (place.store in draft.stores or _is_blob(own, place.store) is not False):
        store = runs_store(draft, place.store, place.path)
        draft.note(f"runs on `{target}` are kept in the store `{store}`; `targets.{target}.store` says so")
        return {"store": store}
    draft.note(
        f"the file does not say where runs on `{target}` could be kept, and on Azure ML a target needs a "
        "store whose URL begins with `az://`: put `NAME: {url: 'az://CONTAINER/gofer', account: ACCOUNT}` "
        f"below `stores:` and `store: NAME` into the target `{target}`"
    )
    return {}


def _needs_store(target: dict[str, Node]) -> bool:
    """Whether gofer.yaml leaves it open: only Azure ML cannot do with the store that every project has."""
    kind = target.get("kind")
    return "store" not in target and (not isinstance(kind, Scalar) or kind.text == _AZURE)


def _is_blob(own: dict[str, Node], store: str) -> bool | None:
    """Whether the store is in an account of Azure's; None where gofer.yaml does not say."""
    url = table(table(own.get("stores")).get(store)).get("url")
    return url.text.startswith("az://") if isinstance(url, Scalar) else None
