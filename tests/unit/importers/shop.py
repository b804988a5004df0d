"""A project with files of other tools, and the kinds of target with and without Azure ML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gofer.backends.azureml.options import AzureOptions
from gofer.backends.local.options import LocalOptions
from gofer.backends.ssh.options import SshOptions
from gofer.config.settings import Settings, load
from gofer.importers.aml import find_aml
from gofer.importers.keys import Finding
from gofer.ops.session import Session
from gofer.ops.settings.config_import import Imported, plan_import, write_import

WITHOUT: Mapping[str, type[msgspec.Struct]] = {"local": LocalOptions, "ssh": SshOptions}
WITH: Mapping[str, type[msgspec.Struct]] = {**WITHOUT, "azureml": AzureOptions}


class Shop:
    """A project's folder, and a home beside it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "project"
        self.folder.mkdir()
        home = root / "home"
        self.environ = {"HOME": str(home), "GOFER_HOME": str(home / "gofer")}

    def put(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def session(self, **variables: str) -> Session:
        return Session(self.folder, {**self.environ, **variables})

    def plan(
        self,
        *files: str,
        name: str | None = None,
        out: Path | None = None,
        kinds: Mapping[str, type[msgspec.Struct]] = WITH,
        **variables: str,
    ) -> Imported:
        paths = [Path(file) for file in files]
        return plan_import(self.session(**variables), paths, name=name, out=out, kinds=kinds)

    def bring(self, *files: str, name: str | None = None) -> Settings:
        """Import, write, and load what was written."""
        write_import(self.plan(*files, name=name))
        return self.load()

    def load(self) -> Settings:
        return load(
            self.folder, paths=self.session().paths, environ=self.environ, kinds=WITH, find_targets=find_aml
        )


def text_of(plan: Imported, name: str = "gofer.yaml") -> str:
    return next(text for path, text in plan.texts.items() if path.name == name)


def tree(plan: Imported, name: str = "gofer.yaml") -> Any:
    return yaml.safe_load(text_of(plan, name))


def fates(plan: Imported, file: str = "") -> dict[str, Finding]:
    """What became of each key of the files whose names end with `file`."""
    found = [one for one in plan.findings if one.place.source.endswith(file)]
    assert len({(one.place.where, one.key) for one in found}) == len(found)
    return {one.key: one for one in found}
