"""Files of other tools, each by the importer of its format, become one draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gofer.config.document import display
from gofer.config.nodes import Table
from gofer.importers.accounts import take_account, take_workspace
from gofer.importers.act import take_act
from gofer.importers.aml import base_of, stands_alone
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.foreign import read_foreign
from gofer.importers.philly import take_clusters, take_philly
from gofer.importers.project_file import bring_stores
from gofer.importers.recognise import Format, recognise
from gofer.importers.toolkit import take_toolkit
from gofer.importers.xt import take_xt


def take_files(draft: ImportDraft, files: Sequence[Path], name: str | None = None) -> None:
    """Take every file in, once; `name` is what the one target of the files is called.

    Files that others name come in with them. XT's files are one, a later over an earlier. ConfigError, with
    file and line, for what cannot be read.
    """
    documents = {path: read_foreign(path) for path in dict.fromkeys(files)}
    for path in _mere_bases(documents):
        del documents[path]
        draft.mention(f"`{display(path)}` is no target by itself; it comes with the files that build on it")
    formats = {path: recognise(document) for path, document in documents.items()}
    for kind in Format:
        paths = [path for path in formats if formats[path] is kind]
        if kind is Format.XT and paths:
            take_xt(draft, paths, name)
        elif kind is not Format.XT:
            _take_each(draft, kind, paths, name)
    bring_stores(draft)


def _mere_bases(documents: Mapping[Path, Table]) -> list[Path]:
    """The files that others of them build on and that say nothing of where to run."""
    bases = {base_of(path, document) for path, document in documents.items()}
    return [path for path in documents if path in bases and not stands_alone(path, read_foreign)]


def _take_each(draft: ImportDraft, kind: Format, paths: Sequence[Path], name: str | None) -> None:
    for path in paths:
        if path not in draft.taken:
            _TAKERS[kind](draft, path, name)


def _workspace(draft: ImportDraft, path: Path, name: str | None) -> None:
    """A workspace alone is a target without a compute, for the person to complete."""
    target = safe_name(name or path.parent.name or "aml")
    entry: Entry = {"kind": "azureml", **take_workspace(draft, path, target)}
    draft.add_target(target, entry)
    draft.note(f"the target `{target}` has no compute yet: add `compute`, or `virtual_cluster`")


_TAKERS: dict[Format, Callable[[ImportDraft, Path, str | None], object]] = {
    Format.ACT: take_act,
    Format.TOOLKIT: take_toolkit,
    Format.PHILLY: take_philly,
    Format.CLUSTERS: lambda draft, path, _: take_clusters(draft, path),
    Format.ACCOUNT: lambda draft, path, _: take_account(draft, path),
    Format.WORKSPACE: _workspace,
}
