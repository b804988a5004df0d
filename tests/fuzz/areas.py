"""The areas by name. Each is a function of a random generator: the same seed gives the same inputs.

No input starts anything: `submit` and its relatives are always given `--dry-run`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from fuzz import bucket, command_lines, documents, service, stored
from fuzz.case import Case

AREAS: dict[str, Callable[[Random], Case]] = {
    "settings": documents.settings,
    "command-lines": command_lines.command_lines,
    "almost-right": command_lines.almost_right,
    "filters": command_lines.filters,
    "arrays": command_lines.arrays,
    "each": command_lines.each,
    "job-files": documents.job_files,
    "importers": documents.importers,
    "references": command_lines.references,
    "store": stored.store_contents,
    "environment": command_lines.environments,
    "batch-scripts": documents.batch_scripts,
    "projects": documents.projects,
    "file-names": command_lines.file_names,
    "snapshots": stored.snapshots,
    "packs": stored.packs,
    "ledger": stored.ledgers,
    "own-files": stored.own_files,
    "slurm-answers": stored.slurm_answers,
    "service-answers": service.service_answers,
    "object-store": bucket.object_store,
}
