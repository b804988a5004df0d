"""Finds the references of the settings in force, where a reference is looked up and is not plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import inspect

from gofer.config.references import holds_reference
from gofer.config.sections import FOLDERS, FileSection, JobSection
from gofer.config.targets import OWN_KEYS
from gofer.config.yaml.decode import Decoder, struct_type
from gofer.config.yaml.nodes import Node, Scalar, Table, table
from gofer.config.yaml.problems import Problems

if TYPE_CHECKING:
    from gofer.config.settings import Settings
    from gofer.config.targets import Kinds

_SECTIONS = ("stores", "folders", "dockers", "job")


class _Finder(Decoder):
    """Decodes, and keeps the values that hold a reference. Ignores errors, which other checks find."""

    def __init__(self) -> None:
        super().__init__(partial=True, problems=Problems(collects=True))
        self.found: dict[str, Scalar] = {}

    def _scalar(self, node: Scalar, annotated: inspect.Type, key: str) -> object:
        extra = annotated.extra or {} if isinstance(annotated, inspect.Metadata) else {}
        if "verbatim" not in extra and holds_reference(node.text):
            self.found[key] = node
        return super()._scalar(node, annotated, key)


def referring_values(settings: Settings, kinds: Kinds) -> dict[str, Scalar]:
    """The values that hold references, by their keys, as in `targets.lab.token`."""
    finder = _Finder()
    shape = struct_type(FileSection)
    sections = {name: node for name in _SECTIONS if (node := settings.section(name)) is not None}
    finder.fields(sections, shape, "", Table({}, settings.default_target_node.place).place)
    for name, node in table(settings.section("targets")).items():
        _search_target(finder, f"targets.{name}", table(node), kinds)
    return finder.found


def _search_target(finder: _Finder, key: str, entries: Mapping[str, Node], kinds: Kinds) -> None:
    kind = entries.get("kind")
    if isinstance(kind, Scalar) and kind.text in kinds:
        options = {word: value for word, value in entries.items() if word not in OWN_KEYS}
        finder.fields(options, struct_type(kinds[kind.text]), key, kind.place)
    for word, shape in (("job", struct_type(JobSection)), ("folders", FOLDERS)):
        with Problems(collects=True):
            if word in entries:
                finder.value(entries[word], shape, f"{key}.{word}")
