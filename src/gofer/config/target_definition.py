"""A target as data, so that its runs can be reached from any folder: kind, options, store, project.

The ledger keeps the text. References such as `${secret:NAME}` stay references. An option that holds a secret
is left out; it is read again from the settings of the project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gofer.config.layers import built_in
from gofer.config.project import FileReader
from gofer.config.redact import is_sensitive, mask
from gofer.config.references import references
from gofer.config.settings import Settings, Sources
from gofer.config.stores import SECRET_KEYS
from gofer.config.targets import OWN_KEYS
from gofer.config.yaml.nodes import Items, Node, Scalar, Table, ValueOrigin, table
from gofer.core.json_text import parse_json
from gofer.errors import ConfigError

if TYPE_CHECKING:
    from gofer.config.paths import Paths
    from gofer.config.target_provider import FindTargets
    from gofer.config.targets import Kinds

_PLACE = ValueOrigin("the ledger")
# Options whose names sound like secrets and whose values are none.
_NO_SECRETS = ("access_key", "ssh_public_key")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)\s*[=:]")


class TargetDefinition(NamedTuple):
    """A target of a project at the time of a submission. `options` are its entries without its defaults for
    jobs, `store` the name of its store and `store_entries` what the settings say of that. `withheld` are the
    options that hold a secret, by name, and so are not here.
    """

    target: str
    kind: str
    project: str
    options: Table
    store: str
    store_entries: Table
    withheld: tuple[str, ...] = ()

    def to_json(self) -> str:
        """ASCII JSON; `from_json` reads it."""
        return json.dumps(
            {
                "target": self.target,
                "kind": self.kind,
                "project": self.project,
                "options": _plain(self.options),
                "store": self.store,
                "store_entries": _plain(self.store_entries),
                "withheld": self.withheld,
            },
            sort_keys=True,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> TargetDefinition:
        """ConfigError for text that `to_json` of this or a later gofer could not have made."""
        try:
            said = parse_json(text)
            return cls(
                _text(said["target"]),
                _text(said["kind"]),
                _text(said["project"]),
                Table(table(_node(said["options"])), _PLACE),
                _text(said["store"]),
                Table(table(_node(said["store_entries"])), _PLACE),
                tuple(_text(one) for one in said["withheld"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"the ledger's definition of a target cannot be read: {error}") from None


def define(settings: Settings, target: str) -> TargetDefinition:
    """The target of these settings as data; UnknownName or ConfigError when there is no such target."""
    found = settings.target(target)
    store = settings.store(found.store)
    withheld: list[str] = []
    entries = table(settings.target_node(target))
    options = {name: node for name, node in entries.items() if name == "kind" or name not in OWN_KEYS}
    address: dict[str, Node] = {"url": Scalar(store.url, _PLACE, plain=False)}
    for name, text in store.options._asdict().items():
        if text is not None:
            address[name] = Scalar(text, _PLACE)
    return TargetDefinition(
        target,
        found.kind,
        str(settings.root),
        _without_secrets(options, "", withheld),
        found.store,
        _without_secrets(address, "store.", withheld),
        tuple(withheld),
    )


def defined_settings(
    definition: TargetDefinition,
    paths: Paths,
    environ: Mapping[str, str],
    kinds: Kinds,
    find_targets: FindTargets | None = None,
) -> Settings:
    """Settings with this target and its store, and the user's own file below them; nothing of a project."""
    target = {**definition.options.entries, "store": Scalar(definition.store, _PLACE)}
    nearest = Table(
        {
            "targets": Table({definition.target: Table(target, _PLACE)}, _PLACE),
            "stores": Table({definition.store: definition.store_entries}, _PLACE),
        },
        _PLACE,
    )
    user = paths.config_file if paths.config_file.exists() else None
    lower = [built_in(paths), *(FileReader().read(user).values() if user else ())]
    layers = (*(_without(layer, definition) for layer in lower), nearest)
    sources = Sources(paths, Path(definition.project), environ, None, user, layers, find_targets=find_targets)
    return Settings(sources, kinds)


def _without(layer: Table, definition: TargetDefinition) -> Table:
    """`table` without the entries that the definition has: the definition's are complete, so nothing is
    merged into them.
    """
    hidden = {"targets": definition.target, "stores": definition.store}
    entries = dict(layer.entries)
    for section, name in hidden.items():
        if section in entries:
            kept = {key: node for key, node in table(entries[section]).items() if key != name}
            entries[section] = Table(kept, layer.place)
    return Table(entries, layer.place)


def _without_secrets(entries: Mapping[str, Node], path: str, withheld: list[str]) -> Table:
    kept = {}
    for name, node in entries.items():
        if _tells_secret(name, node):
            withheld.append(path + name)
        else:
            kept[name] = node
    return Table(kept, _PLACE)


def _tells_secret(name: str, node: Node) -> bool:
    """Whether the value is, or may contain, a secret in plain text."""
    if isinstance(node, Table):
        return any(_tells_secret(inner, value) for inner, value in node.entries.items())
    if isinstance(node, Items):
        return any(_tells_secret(name, value) for value in node.items)
    if mask(node.text) != node.text:
        return True
    named = [name, *_ASSIGNED.findall(node.text)]
    if not any(one in SECRET_KEYS or (is_sensitive(one) and one not in _NO_SECRETS) for one in named):
        return False
    found = [*references(node.text)]
    return not found or any(one.default for one in found)


def _plain(node: Node) -> Any:
    """JSON values: quoted text is text, a bare word `{"plain": …}`, a map `{"map": …}`."""
    if isinstance(node, Scalar):
        return {"plain": node.text} if node.plain else node.text
    if isinstance(node, Items):
        return [_plain(one) for one in node.items]
    return {"map": {name: _plain(one) for name, one in node.entries.items()}}


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError(f"{value!r:.40} is not text")
    return value


def _node(value: Any) -> Node:
    if isinstance(value, str):
        return Scalar(value, _PLACE, plain=False)
    if isinstance(value, list):
        return Items(tuple(_node(one) for one in value), _PLACE)
    if "map" in value:
        return Table({str(name): _node(one) for name, one in value["map"].items()}, _PLACE)
    return Scalar(str(value["plain"]), _PLACE)
