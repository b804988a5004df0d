"""The layers that settings are joined of: the built-in one, how targets join, what the whole alone tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.config.nodes import BUILT_IN, Node, Scalar, Table, merged, table
from gofer.config.stores import check_store_entry
from gofer.config.targets import check_store, read_target

if TYPE_CHECKING:
    from gofer.config.paths import Paths
    from gofer.config.settings import Settings
    from gofer.config.targets import Kinds

DEFAULT_TARGET = "local"
DEFAULT_STORE = "default"


def built_in(paths: Paths) -> Table:
    """What is in force where no file says anything."""
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
    """Joins name by name and key by key, but a target of another kind is another target and replaces it."""
    kept = {}
    for name, node in table(lower).items():
        ours, theirs = table(node).get("kind"), table(table(upper).get(name)).get("kind")
        same = theirs is None or not isinstance(ours, Scalar) or getattr(theirs, "text", None) == ours.text
        if same:
            kept[name] = node
    return merged(Table(kept, BUILT_IN), upper)


def check_joined(settings: Settings, kinds: Kinds) -> None:
    """ConfigError for what no single file can tell: missing keys, kinds, names of stores."""
    from gofer.config.decode import Decoder, struct_type
    from gofer.config.dockers import check_docker
    from gofer.config.sections import FolderSection, StoreSection

    stores = table(settings.section("stores"))
    for name, node in stores.items():
        Decoder().value(node, struct_type(StoreSection), f"stores.{name}")
        check_store_entry(name, table(node))
    for name, node in table(settings.section("folders")).items():
        Decoder().value(node, struct_type(FolderSection), f"folders.{name}")
        check_store(f"folders.{name}", node, stores)
    for name, node in table(settings.section("dockers")).items():
        check_docker(name, node)
    for name, node in table(settings.section("targets")).items():
        read_target(name, node, kinds)
        check_store(f"targets.{name}", node, stores)
        for folder, inner in table(table(node).get("folders")).items():
            check_store(f"targets.{name}.folders.{folder}", inner, stores)
