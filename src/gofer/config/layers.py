"""The layers of the settings: the built-in values, the environment (`GOFER_GPUS` is `job.gpus`), the merging
of targets, and the checks of the combined settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gofer.config.stores import check_store_entry
from gofer.config.targets import check_group_names, check_store, read_target
from gofer.config.yaml.nodes import BUILT_IN, Items, Node, Scalar, Table, ValueOrigin, merged, table
from gofer.config.yaml.problems import STRICT, Problems
from gofer.text import did_you_mean

if TYPE_CHECKING:
    from gofer.config.paths import Paths
    from gofer.config.settings import Settings
    from gofer.config.targets import Kinds

_PREFIX = "GOFER_"
# The keys of `job` whose value fits into one line of text; `env` and `tags` are maps and have flags of their
# own.
JOB_VARIABLES = (
    "name",
    "gpus",
    "nodes",
    "procs",
    "cpus",
    "memory",
    "gpu_type",
    "setup",
    "time_limit",
    "grace",
    "retries",
    "retry_on",
    "priority",
    "sync",
    "keep",
    "keep_group",
    "keep_most",
    "outputs",
    "multi_process",
    "rank_variables",
    "launcher",
    "packages",
    "wheels",
)
_LISTS = ("retry_on", "sync", "outputs")
_TRUTHS = {"1": "true", "0": "false"}
# Variables that gofer reads itself, and those that it sets for the command of a run.
_OTHERS = (
    *(
        "HOME",
        "WORK_DIR",
        "DEBUG",
        "AZURE_PROFILE",
        "TARGET",
        "RUN_ID",
        "ATTEMPT",
        "RUN_DIR",
        "OUTPUT_DIR",
        "TAGS",
    ),
    *("RANK", "NODE_RANK", "HOSTFILE", "PACKAGES_FILE"),
)

DEFAULT_TARGET = "local"
DEFAULT_STORE = "default"


def job_variables(environ: Mapping[str, str]) -> Table:
    """The defaults of a job that the environment sets; an empty variable sets nothing."""
    entries: dict[str, Node] = {}
    for key in JOB_VARIABLES:
        variable = _PREFIX + key.upper()
        text = environ.get(variable)
        if not text:
            continue
        place = ValueOrigin(f"env {variable}")
        if key in _LISTS:
            entries[key] = Items(tuple(Scalar(part.strip(), place) for part in text.split(",")), place)
        else:
            entries[key] = Scalar(_TRUTHS.get(text, text) if key == "multi_process" else text, place)
    return Table(entries, ValueOrigin("environment"))


def misspelled_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables whose names are nearly a setting, with a hint. Other programs may use the remaining ones."""
    known = [*(key.upper() for key in JOB_VARIABLES), *_OTHERS]
    for name in sorted(environ):
        rest = name.removeprefix(_PREFIX)
        if name.startswith(_PREFIX) and rest not in known and not rest.startswith("ARG_"):
            # Compared without the prefix, which would make any two names look alike.
            hint = did_you_mean(rest, known)
            if hint:
                yield name, hint.replace("`", f"`{_PREFIX}", 1)


def built_in(paths: Paths) -> Table:
    """The settings where no file sets anything."""
    store = Table({"url": Scalar(paths.store_dir.as_uri(), BUILT_IN)}, BUILT_IN)
    target = Table({"kind": Scalar(DEFAULT_TARGET, BUILT_IN)}, BUILT_IN)
    return Table(
        {
            "stores": Table({DEFAULT_STORE: store}, BUILT_IN),
            "targets": Table({DEFAULT_TARGET: target}, BUILT_IN),
        },
        BUILT_IN,
    )


def join_targets(lower: Node | None, upper: Node | None) -> Node | None:
    """Merge targets by name and key. A target of another kind replaces the one below it."""
    kept = {}
    for name, node in table(lower).items():
        ours, theirs = table(node).get("kind"), table(table(upper).get(name)).get("kind")
        same = theirs is None or not isinstance(ours, Scalar) or getattr(theirs, "text", None) == ours.text
        if same:
            kept[name] = node
    return merged(Table(kept, BUILT_IN), upper)


def check_joined(settings: Settings, kinds: Kinds, problems: Problems = STRICT) -> None:
    """ConfigError for mistakes that show only in the combined settings: missing keys, kinds, names of
    stores.
    """
    # msgspec is slow to load, and a command without any file of settings decodes none.
    from gofer.config.dockers import check_docker
    from gofer.config.sections import FolderSection, StoreSection
    from gofer.config.yaml.decode import Decoder, struct_type

    stores = table(settings.section("stores"))
    for name, node in stores.items():
        with problems:
            Decoder(problems=problems).value(node, struct_type(StoreSection), f"stores.{name}")
            check_store_entry(name, table(node), problems)
    for name, node in table(settings.section("folders")).items():
        with problems:
            Decoder(problems=problems).value(node, struct_type(FolderSection), f"folders.{name}")
            check_store(f"folders.{name}", node, stores)
    for name, node in table(settings.section("dockers")).items():
        with problems:
            check_docker(name, node)
    with problems:
        check_group_names(table(settings.section("target_groups")), table(settings.section("targets")))
    for name, node in table(settings.section("targets")).items():
        with problems:
            read_target(name, node, kinds, problems=problems)
        with problems:
            check_store(f"targets.{name}", node, stores)
        for folder, inner in table(table(node).get("folders")).items():
            with problems:
                check_store(f"targets.{name}.folders.{folder}", inner, stores)
