"""`gofer config show`: every setting in force, its value as written, and its origin. Looks up no
reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gofer.config.jobs import JobFlags, built_in, job_nodes
from gofer.config.redact import MASK, is_sensitive, mask
from gofer.config.references import holds_reference
from gofer.config.settings import Settings
from gofer.config.target_provider import imported_accounts
from gofer.config.yaml.nodes import BUILT_IN, Items, Node, Scalar, Table, table

# The parts of an address that let anybody in who holds it.
_KEYED_URL = re.compile(
    r"(://[^/@\s:]*:)[^/@\s]+(?=@)|([?&](?:sig|token|key|password|secret)=)[^&\s]+", re.IGNORECASE
)


class ShownSetting(NamedTuple):
    """One line of the listing."""

    key: str
    value: str
    origin: str


def rows(settings: Settings) -> list[ShownSetting]:
    """The settings in the order of the files: the target, defaults of a job, targets, stores, folders,
    images, patterns.

    Values that look like credentials, by their key or their form, are masked. Of other tools' files all is
    shown, and what gofer makes no use of is marked so.
    """
    node = settings.default_target_node
    shown = [ShownSetting("target", settings.default_target, node.place.origin), *_job_rows(settings)]
    for section in ("targets", "target_groups", "stores", "folders", "dockers", "snapshot"):
        shown += _node_rows(section, settings.section(section))
    shown += _imported_rows(settings)
    for section, values in (("include", settings.include), ("ignore", settings.ignore)):
        patterns = settings.section(section)
        origin = patterns.place.origin if patterns else BUILT_IN.origin
        shown.append(ShownSetting(section, ", ".join(values), origin))
    return shown


def _job_rows(settings: Settings) -> Iterator[ShownSetting]:
    """As a job without flags would have them on the default target."""
    for key, node in job_nodes(JobFlags(), None, settings, settings.default_target).items():
        if node is not None:
            yield from _node_rows("job", Table({key: node}, BUILT_IN))
        elif built_in(key) != {}:
            yield ShownSetting(f"job.{key}", _text(built_in(key)), BUILT_IN.origin)


def _imported_rows(settings: Settings) -> Iterator[ShownSetting]:
    provider = settings.provider
    for name in provider.names if provider else ():
        target = settings.imported(name)
        if target is None:
            continue
        yield from _node_rows(f"targets.{name}", target.node)
        for key, node, why in target.unused:
            text = masked(key.rpartition(".")[2], _written(node))
            yield ShownSetting(f"targets.{name}.{key}", text, f"{node.place.origin}, not used: {why}")
    for path in imported_accounts(settings):
        if provider and path.is_file():
            store = provider.store_name(path, settings.store_names)
            yield from _node_rows(f"stores.{store}", provider.account(path))


def _node_rows(key: str, node: Node | None) -> Iterator[ShownSetting]:
    for name, entry in table(node).items():
        inner = f"{key}.{name}"
        if isinstance(entry, Table):
            yield from _node_rows(inner, entry)
        else:
            yield ShownSetting(inner, masked(name, _written(entry)), entry.place.origin)


def masked(name: str, text: str) -> str:
    """`text`, or a mask when it is a credential. A reference to a credential is not masked."""
    if is_sensitive(name) and text and not holds_reference(text):
        return MASK
    return mask(_KEYED_URL.sub(lambda match: (match[1] or match[2]) + MASK, text))


def _written(node: Node) -> str:
    if isinstance(node, Items):
        return ", ".join(_written(item) for item in node.items)
    return node.text if isinstance(node, Scalar) else ""


def _text(value: object) -> str:
    """A built-in value as it would be written in a file."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(str(one) for one in value)
    return f"{value:g}s" if isinstance(value, float) else str(value)
