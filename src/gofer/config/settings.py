"""All settings of one command, each with its origin. The environment overrides the project's file, which
overrides the user's file, which overrides the built-in values.

Reading settings writes nothing and starts nothing. Without a file, neither the YAML parser nor the typed
decoder is loaded. `gofer.config.jobs` adds the flags of the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.config.layers import (
    DEFAULT_STORE,
    DEFAULT_TARGET,
    built_in,
    check_joined,
    job_variables,
    join_targets,
    misspelled_variables,
)
from gofer.config.paths import Paths, home_folder
from gofer.config.project import (
    PROJECT_FILE,
    CodeFolder,
    FileReader,
    FindRepository,
    find_code_folder,
    find_project_file,
)
from gofer.config.redact import remember
from gofer.config.references import Resolver
from gofer.config.secrets import Secrets
from gofer.config.stores import StoreEntry as StoreEntry
from gofer.config.stores import full_address, nearest_entry, read_options
from gofer.config.target_provider import imported_store_names
from gofer.config.targets import Target, check_no_group, read_target
from gofer.config.yaml.nodes import BUILT_IN, Items, Node, Scalar, Table, ValueOrigin, merged, table
from gofer.errors import CredentialError, UnknownName
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.config.references import Reference
    from gofer.config.target_provider import FindTargets, ImportedTarget, TargetProvider
    from gofer.config.targets import Kinds


class Settings:
    """What files and environment say. Nothing in it changes after loading, so threads may share it."""

    def __init__(self, sources: Sources, kinds: Kinds) -> None:
        self.paths = sources.paths
        self.folder = sources.folder
        self.environ = sources.environ
        self.project_file = sources.project_file
        self.user_file = sources.user_file
        self.files = sources.files
        self._kinds = kinds
        self._layers = sources.layers
        self._repository = sources.repository
        self._find_targets = sources.find_targets
        self._resolver: Resolver | None = None
        self._imported: dict[str, ImportedTarget] = {}

    @property
    def root(self) -> Path:
        """The folder that holds the code, see `code_folder`."""
        return self.code_folder.path

    @cached_property
    def code_folder(self) -> CodeFolder:
        """The project around the folder of the command, and what makes it the project."""
        return find_code_folder(self.folder, home_folder(self.environ), self._marked, self._repository)

    @property
    def _marked(self) -> CodeFolder | None:
        """The nearest folder with `gofer.yaml` or the files of a provider."""
        found = [CodeFolder(self.project_file.parent, PROJECT_FILE)] if self.project_file else []
        if self.provider and self.provider.holder:
            found.append(CodeFolder(self.provider.holder, self.provider.label))
        return max(found, key=lambda marked: len(marked.path.parts), default=None)

    def section(self, name: str) -> Node | None:
        """A key at the top of the files, all layers joined; None when nobody set it."""
        joined: Node | None = None
        for layer in self._layers:
            node = layer.entries.get(name)
            replaces = name == "targets" and joined is not None and node is not None
            joined = join_targets(joined, node) if replaces else merged(joined, node)
        return joined

    # -- targets and stores

    @property
    def default_target(self) -> str:
        """The name used when no flag names a target."""
        node = self.default_target_node
        return node.text if isinstance(node, Scalar) else DEFAULT_TARGET

    @property
    def default_target_node(self) -> Node:
        """As `default_target`, with its place."""
        inside_run = "GOFER_RUN_ID" in self.environ
        # Inside a run, GOFER_TARGET is the name that the submitting person uses for the run's target.
        named = None if inside_run else self.environ.get("GOFER_TARGET")
        if named:
            return Scalar(named, ValueOrigin("env GOFER_TARGET"))
        return self.section("target") or self._usual_target

    @property
    def _usual_target(self) -> Scalar:
        """What is meant where nobody names a target: that of an older tool's file, else this machine."""
        name = self.provider.default if self.provider else None
        if self.provider is None or name is None:
            return Scalar(DEFAULT_TARGET, BUILT_IN)
        return Scalar(name, ValueOrigin(self.provider.path(name).name))

    def choose_target(self, flag: str | None = None, job_file: str | None = None) -> str:
        """The name of the target to use: the flag's, the environment's, the job file's, else the default."""
        node = self.default_target_node
        if flag:
            return flag
        if job_file and not node.place.source.startswith("env "):
            return job_file
        return self.default_target

    @property
    def target_names(self) -> list[str]:
        imported = self.provider.names if self.provider else []
        return sorted({*table(self.section("targets")), *imported})

    @property
    def target_groups(self) -> dict[str, tuple[str, ...]]:
        """The targets of each group, by the name of the group: `target_groups`."""
        groups = table(self.section("target_groups"))
        return {name: tuple(dict.fromkeys(_texts(node))) for name, node in groups.items()}

    def targets_of(self, name: str) -> tuple[str, ...]:
        """The targets that a name means to a command that reads: those of a group, else that target alone."""
        return (name,) if name in self.target_names else self.target_groups.get(name) or (name,)

    def imported(self, target: str) -> ImportedTarget | None:
        """What another tool's file says of a target; None when none does, or ours have that name.

        ConfigError when the file cannot be used.
        """
        if target in table(self.section("targets")) or self.provider is None:
            return None
        self.provider.check_target(target)
        if target not in self.provider.names:
            return None
        if target not in self._imported:
            self._imported[target] = self.provider.target(target, self.store_names)
        return self._imported[target]

    def target_node(self, name: str) -> Node | None:
        """A target as it was written, by us or for another tool; None when there is none."""
        found = self.imported(name)
        return found.node if found else table(self.section("targets")).get(name)

    @cached_property
    def provider(self) -> TargetProvider | None:
        """The targets and stores that files of another tool describe; None when there are none."""
        if self._find_targets is None:
            return None
        return self._find_targets(self.folder, home_folder(self.environ), self.environ)

    def target(self, name: str | None = None) -> Target:
        """The target of that name, or the default one; UnknownName when there is none."""
        default = self.default_target_node
        wanted = name or self.default_target
        node = self.target_node(wanted)
        if node is None:
            check_no_group(wanted, self.target_groups)
            origin = f" ({default.place.where})" if wanted == self.default_target else ""
            raise UnknownName(
                f"there is no target `{wanted}`{origin}",
                hint=did_you_mean(wanted, [*self.target_names, *self.target_groups])
                or f"{_listed('targets', self.target_names)}; more go under `targets:`",
            )
        return read_target(wanted, node, self._kinds, self.resolve)

    @property
    def store_names(self) -> list[str]:
        return sorted(table(self.section("stores")))

    def store(self, name: str = DEFAULT_STORE) -> StoreEntry:
        """The store of that name, its address resolved; UnknownName when there is none."""
        known = table(self.section("stores"))
        entries = table(known.get(name) or self._imported_store(name))
        if not entries:
            hint = did_you_mean(name, known) or _listed("stores", known)
            raise UnknownName(f"there is no store `{name}`", hint=hint)
        url, options = entries["url"], read_options(entries)
        text = url.text if isinstance(url, Scalar) else ""
        account = self.resolve(options.account) if options.account else None
        return StoreEntry(name, full_address(self.resolve(text), account), url.place.origin, options)

    def store_at(self, url: str) -> StoreEntry | None:
        """What the settings say of an address: see `nearest_entry`."""
        names = self.store_names
        if self.provider:
            names = [*names, *imported_store_names(self)]
        return nearest_entry([self.store(name) for name in names], url)

    def _imported_store(self, name: str) -> Node | None:
        return self.provider.store(name) if self.provider else None

    @property
    def ignore(self) -> tuple[str, ...]:
        """Patterns of files that stay out of a snapshot: the user's first, then the project's."""
        return tuple(one for layer in self._layers for one in _texts(layer.entries.get("ignore")))

    @property
    def include(self) -> tuple[str, ...]:
        """Patterns of files that go into a snapshot although an ignore rule leaves them out."""
        return tuple(one for layer in self._layers for one in _texts(layer.entries.get("include")))

    @property
    def has_plain_code(self) -> bool:
        """Whether the code of a run is also written to the store as plain files."""
        layout = table(self.section("snapshot")).get("layout")
        return isinstance(layout, Scalar) and layout.text == "files"

    def ignored(self, target: str) -> tuple[str, ...]:
        """As `ignore`, for code that goes to a target: its own patterns come last."""
        return (*self.ignore, *_texts(table(self.target_node(target)).get("ignore")))

    def job_layers(self, target: str | None = None) -> list[Table]:
        """Where defaults of a job come from, nearest first: environment, the target, project, user.

        The set-up of another tool's file is behind all of them: nobody chose it.
        """
        layers = [job_variables(self.environ)]
        own = [Table(table(layer.entries.get("job")), layer.place) for layer in reversed(self._layers)]
        if target is not None:
            known = table(self.target_node(target))
            entries = dict(table(known.get("job")))
            if "default_gpus" in known:
                entries.setdefault("gpus", known["default_gpus"])
            if self.imported(target) and any("setup" in layer.entries for layer in own):
                entries.pop("setup", None)
            layers.append(Table(entries, BUILT_IN))
        return layers + own

    @property
    def warnings(self) -> list[str]:
        """Things that look like settings and are not: misspelled_variables variables, a `gofer.yml`."""
        found = [f"`{name}` is not a setting; {hint}" for name, hint in misspelled_variables(self.environ)]
        for folder in {self.folder, self.root}:
            if os.path.lexists(folder / "gofer.yml") and not os.path.lexists(folder / PROJECT_FILE):
                found.append(f"`{folder / 'gofer.yml'}` is not read; name it `{PROJECT_FILE}`")
        return found

    # -- references

    @property
    def secrets(self) -> Secrets:
        return Secrets(self.paths.secrets_file)

    def resolve(self, text: str) -> str:
        """`text` with its references looked up and remembered for masking; CredentialError or ConfigError."""
        if "${" not in text:
            return text
        if self._resolver is None:
            self._resolver = Resolver(self.environ, self.root, self._secret, _remember)
        return self._resolver.resolve(text)

    def _secret(self, name: str) -> str:
        found = self.provider.secret(name) if self.provider else None
        if found is not None:
            return found
        try:
            return self.secrets.get(name)
        except CredentialError as error:
            node = next((one for layer in self._layers if (one := find_reference(layer, name))), None)
            where = f"{node.place.where}: " if node else ""
            raise CredentialError(f"{where}{error.message}", hint=error.hint) from None

    def reveal(self, values: Mapping[str, str]) -> dict[str, str]:
        """The mapping with every reference resolved; what was found is masked in messages from then on."""
        return {name: self.resolve(value) for name, value in values.items()}


class Sources(NamedTuple):
    """Where settings are read from; `layers` from the weakest, built-in, to the strongest. `files` are those
    of the layers, with the files that others extend.
    """

    paths: Paths
    folder: Path
    environ: Mapping[str, str]
    project_file: Path | None
    user_file: Path | None
    layers: tuple[Table, ...]
    files: tuple[Path, ...] = ()
    repository: FindRepository | None = None
    find_targets: FindTargets | None = None


def load(
    folder: Path,
    *,
    paths: Paths,
    environ: Mapping[str, str],
    kinds: Kinds,
    repository: FindRepository | None = None,
    find_targets: FindTargets | None = None,
    reader: FileReader | None = None,
) -> Settings:
    """The settings for a command given in `folder`; ConfigError for anything wrong in a file, used or not.

    `kinds` maps each kind of target to the Struct of its options, and is not touched while no file exists.
    `repository` finds the git repository around a folder, and is called when the code folder is first used.
    `find_targets` finds targets in the files of another tool. `reader` collects the errors instead, where it
    is made for that.
    """
    reader = reader or FileReader()
    folder = Path(os.path.abspath(folder))
    user = paths.config_file if reader.has(paths.config_file) else None
    given = next((path for path in reader.texts if path != paths.config_file), None)
    project = given or find_project_file(folder, home_folder(environ))
    if project == user:
        project = None
    files: dict[Path, Table] = {}
    for path in (user, project):
        files.update(reader.read(path) if path else {})
    layers = (built_in(paths), *files.values())
    sources = Sources(paths, folder, environ, project, user, layers, tuple(files), repository, find_targets)
    settings = Settings(sources, kinds)
    if files:
        check_joined(settings, kinds, reader.problems)
    return settings


def find_reference(node: Node, secret: str) -> Scalar | None:
    """The first value at or below the node that refers to the secret."""
    if isinstance(node, Scalar):
        return node if f"${{secret:{secret}}}" in node.text else None
    inner = node.items if isinstance(node, Items) else tuple(node.entries.values())
    return next((found for one in inner if (found := find_reference(one, secret))), None)


def _texts(node: Node | None) -> list[str]:
    return [one.text for one in node.items if isinstance(one, Scalar)] if isinstance(node, Items) else []


def _listed(what: str, known: Iterable[str]) -> str:
    return f"the {what} are {', '.join(f'`{name}`' for name in sorted(known))}"


def _remember(reference: Reference, value: str) -> None:
    # A path that exists is no credential, and messages about files would be unreadable without it.
    if reference.kind != "env" or not (value.startswith("/") and os.path.exists(value)):
        remember(value)
