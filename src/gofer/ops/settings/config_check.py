"""Check every file of settings, and name all errors at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends.registry import Kinds
from gofer.config.find_references import referring_values
from gofer.config.folders import MappedFolder, folders_of
from gofer.config.jobs import JobFlags, job_values
from gofer.config.project import FileReader
from gofer.config.references import Reference, references
from gofer.config.yaml.nodes import Scalar, table
from gofer.config.yaml.problems import Problems
from gofer.errors import ConfigError, CredentialError, GoferError, UsageError
from gofer.ops.settings.load import load_settings
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gofer.config.settings import Settings
    from gofer.ops.session import Session


class FoundProblem(NamedTuple):
    """An error of the settings. `where` is `FILE:LINE` or a variable, or empty, and is not in `message`."""

    where: str
    message: str
    hint: str | None

    @property
    def file(self) -> str | None:
        """The path as messages show it; None for what is in no file."""
        return self.where.rpartition(":")[0] or None

    @property
    def line(self) -> int | None:
        line = self.where.rpartition(":")[2]
        return int(line) if self.file and line.isdecimal() else None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class CheckedSettings(NamedTuple):
    """What a check found. `files` were read; `errors` make commands fail, `warnings` may."""

    files: tuple[Path, ...]
    errors: list[FoundProblem]
    warnings: list[str]


def check_settings(session: Session, texts: Mapping[Path, str] | None = None) -> CheckedSettings:
    """Check the files of the session's folder, with `texts` in place of the files of these paths. Calls no
    service, and raises no ConfigError.
    """
    problems = Problems(collects=True)
    settings = load_settings(session, FileReader(problems, texts))
    with problems:
        _check_default_target(settings)
    _check_groups(settings, problems)
    warnings = settings.warnings + _check_references(settings, problems)
    _check_other_tools(settings, problems)
    if not problems.found:
        with problems:
            job_values(JobFlags(), None, settings, settings.default_target)
        _check_folders(settings, problems)
        _check_backends(session.with_settings(settings), settings, problems)
    errors = dict.fromkeys(_described(error) for error in problems.found)
    in_order = sorted(errors, key=lambda problem: (problem.file or "", problem.line or 0))
    return CheckedSettings(settings.files, in_order, warnings)


def _described(error: ConfigError) -> FoundProblem:
    where = error.where or ""
    return FoundProblem(where, error.message.removeprefix(f"{where}: "), error.hint)


def _check_default_target(settings: Settings) -> None:
    node = settings.default_target_node
    name = node.text if isinstance(node, Scalar) else ""
    if name in settings.target_groups and name not in settings.target_names:
        raise ConfigError(
            f"`target`: `{name}` is a group of targets, and runs need one of them",
            where=node.place.where,
            hint=f"name one: {', '.join(f'`{one}`' for one in settings.target_groups[name])}",
        )
    if name and name not in settings.target_names:
        names = ", ".join(f"`{one}`" for one in settings.target_names)
        raise ConfigError(
            f"`target`: there is no target `{name}`",
            where=node.place.where,
            hint=did_you_mean(name, settings.target_names) or f"the targets are {names}",
        )


def _check_groups(settings: Settings, problems: Problems) -> None:
    """Add the names in groups that are no targets to the problems."""
    for group, node in table(settings.section("target_groups")).items():
        for name in settings.target_groups[group]:
            if name not in settings.target_names:
                problems.add(
                    ConfigError(
                        f"`target_groups.{group}`: there is no target `{name}`",
                        where=node.place.where,
                        hint=did_you_mean(name, settings.target_names) or f"`gofer target add {name}`",
                    )
                )


def _check_references(settings: Settings, problems: Problems) -> list[str]:
    """Add the secrets and files that do not exist to the problems; warnings for unset variables."""
    warnings = []
    for key, node in referring_values(settings, Kinds()).items():
        with problems:
            for reference in references(node.text):
                words = _missing(settings, reference, key, node)
                warnings += [words] if words else []
    return warnings


def _missing(settings: Settings, reference: Reference, key: str, node: Scalar) -> str | None:
    """A warning for a variable that is not set; ConfigError for a secret or a file that does not exist."""
    place = node.place
    if reference.kind == "env":
        unset = reference.default is None and reference.name not in settings.environ
        return f"{place.where}: `{key}` needs the variable `{reference.name}`, which is not set" * unset
    try:
        settings.resolve(str(reference))
    except (ConfigError, CredentialError) as error:
        message = error.message.removeprefix(f"{place.where}: ")
        raise ConfigError(f"`{key}`: {message}", where=place.where, hint=error.hint) from None
    return None


def _check_other_tools(settings: Settings, problems: Problems) -> None:
    """The targets that files of other tools describe."""
    with problems:
        for name in settings.provider.names if settings.provider else ():
            with problems:
                settings.imported(name)


def _check_folders(settings: Settings, problems: Problems) -> None:
    """Add what of the mapped folders contradicts itself, and the options that no mount has."""
    for target in settings.target_names:
        folders: dict[str, MappedFolder] = {}
        with problems:
            folders = folders_of(settings, target)
        for folder in folders.values():
            with problems:
                folder.check()


def _check_backends(session: Session, settings: Settings, problems: Problems) -> None:
    """The options of each target together."""
    for name, node in table(settings.section("targets")).items():
        try:
            session.backend(name)
        except UsageError as error:
            problems.add(ConfigError(error.message, where=node.place.where, hint=error.hint))
        except GoferError:
            continue  # the options are right, and what they name is not there now
