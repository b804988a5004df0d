"""Files of other tools, each by the importer of its format, become one draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gofer.config.importers.accounts import take_account, take_workspace
from gofer.config.importers.act import take_act
from gofer.config.importers.draft import Draft, Entry, safe_name
from gofer.config.importers.foreign import read_foreign
from gofer.config.importers.philly import take_clusters, take_philly
from gofer.config.importers.recognise import Format, recognise
from gofer.config.importers.toolkit import take_toolkit
from gofer.config.importers.xt import take_xt


def take_files(draft: Draft, files: Sequence[Path], name: str | None = None) -> None:
    """Take every file in, once; `name` is what the one target of the files is called.

    Files that others name come in with them. ConfigError, with file and line, for what cannot be read.
    """
    formats = {path: recognise(read_foreign(path)) for path in dict.fromkeys(files)}
    order = [*Format]
    for path in sorted(formats, key=lambda one: order.index(formats[one])):
        if path not in draft.taken:
            _TAKERS[formats[path]](draft, path, name)


def _workspace(draft: Draft, path: Path, name: str | None) -> None:
    """A workspace alone is a target without a compute, for the person to complete."""
    target = safe_name(name or path.parent.name or "aml")
    entry: Entry = {"kind": "azureml", **take_workspace(draft, path, target)}
    draft.add_target(target, entry)
    draft.note(f"the target `{target}` has no compute yet: add `compute`, or `virtual_cluster`")


_TAKERS: dict[Format, Callable[[Draft, Path, str | None], object]] = {
    Format.ACT: take_act,
    Format.XT: take_xt,
    Format.TOOLKIT: take_toolkit,
    Format.PHILLY: take_philly,
    Format.CLUSTERS: lambda draft, path, _: take_clusters(draft, path),
    Format.ACCOUNT: lambda draft, path, _: take_account(draft, path),
    Format.WORKSPACE: _workspace,
}
