"""Load settings with every kind of target and the targets of imported files. `gofer.config` knows neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.backends.registry import Kinds
from gofer.config import settings
from gofer.config.schema import project_schema
from gofer.config.target_definition import defined_settings
from gofer.importers.aml import find_aml
from gofer.snapshot.repository import find_root

if TYPE_CHECKING:
    from pathlib import Path

    from gofer.config.project import FileReader
    from gofer.config.settings import Settings
    from gofer.config.target_definition import TargetDefinition
    from gofer.ops.session import Session


def load_settings(session: Session, reader: FileReader | None = None) -> Settings:
    """The settings of the session's folder. ConfigError for files that cannot be read as settings, unless
    `reader` collects errors.
    """
    return settings.load(
        session.folder,
        paths=session.paths,
        environ=session.environ,
        kinds=Kinds(),
        repository=lambda folder: find_root(folder, session.environ),
        find_targets=find_aml,
        reader=reader,
    )


def load_project(session: Session, project: Path) -> Settings:
    """The present settings of another project of this user; errors as in `load_settings`."""
    return settings.load(
        project, paths=session.paths, environ=session.environ, kinds=Kinds(), find_targets=find_aml
    )


def load_definition(session: Session, definition: TargetDefinition) -> Settings:
    """The settings that a definition of a target in the ledger stands for; errors as in `load_settings`."""
    return defined_settings(definition, session.paths, session.environ, Kinds(), find_aml)


def config_schema() -> dict[str, object]:
    """The JSON Schema of gofer.yaml, with the options of every kind of target."""
    return project_schema(Kinds())
