"""`gofer config schema`: the JSON Schema of gofer.yaml, so that editors complete and check it."""

from __future__ import annotations

from typing import Any

from gofer.cli.options import Command
from gofer.cli.output.json_output import print_json
from gofer.ops.session import config_schema


def run(**given: Any) -> int:
    """Print the schema."""
    print_json(config_schema())
    return 0


command = Command(
    "schema",
    run,
    [],
    help="Print the JSON Schema of gofer.yaml and config.yaml. An editor that knows YAML schemas completes "
    "and checks the file with `# yaml-language-server: $schema=FILE` as its first line.",
)
