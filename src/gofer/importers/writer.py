"""Plain data as YAML that a person would write: keys in order, scripts as blocks, and targets as comments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from gofer.importers.draft import Entry, Value


@cache
def _dumper() -> type[Any]:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        # A block of nothing but line ends reads differently behind another key than alone.
        plain = value.replace("\n", "").isprintable() and (value.strip() or "\n" not in value)
        # Where a block cannot hold the text, the writer takes quotes by itself.
        style = ("|" if "\n" in value else None) if plain else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def to_yaml(value: Value) -> str:
    """The value in block style, with a newline at its end."""
    import yaml

    return str(
        yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=10_000, indent=2)
    )


def to_flow(value: Value) -> str:
    """The value on one line, as it may stand inside `{…}`."""
    import yaml

    style: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True}
    text = str(yaml.dump(value, Dumper=_dumper(), width=2**31, **style))
    return text.removesuffix("...\n").strip()


def indented(text: str, columns: int) -> str:
    """Every line that holds something, moved to the right."""
    return "".join(
        f"{' ' * columns}{line}" if line.strip() else line for line in text.splitlines(keepends=True)
    )


def commented(name: str, entry: Entry, why: str) -> str:
    """A target that gofer cannot use yet, as comment lines that become it without their `# `."""
    lines = to_yaml({name: entry}).splitlines()
    return "".join(f"{line}\n" for line in [f"# {why}", *(f"# {line}" for line in lines)])


def section(name: str, value: Value, comments: Mapping[str, str]) -> str:
    """A key at the top of a file; comments go to the end of `targets`."""
    if name != "targets" or not isinstance(value, dict):
        return to_yaml({name: value})
    body = to_yaml(value) if value else ""
    return f"{name}:\n{indented(body + ''.join(comments.values()), 2)}"
