"""Change the number of nodes of an elastic run while it runs: `gofer scale`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gofer.core import run_layout
from gofer.core.files import encode
from gofer.errors import CheckFailed, UsageError
from gofer.ops.submission.sent_code import read_record

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.tracking.ledger import RunRow


def scale(session: Session, row: RunRow, text: str) -> str:
    """Wish for a number of nodes, or for other bounds; what was wished, in words.

    `text` is `3`, or `MIN:MAX`. The leader of the run reads the wish within some seconds. New nodes join, and
    surplus nodes leave, at the next checkpoint. Idempotent. CheckFailed for a run whose number of nodes is
    fixed, and beyond the number for which it was submitted.
    """
    elastic = read_record(session, row).job.elastic
    if elastic is None:
        raise CheckFailed(
            f"the number of nodes of {row.short_id} is fixed",
            hint="submit it with `--nodes MIN:MAX` to change it while it runs",
        )
    if row.is_final:
        raise CheckFailed(f"{row.short_id} has already ended: {row.state}")
    if not row.store.startswith("file://"):
        raise CheckFailed(
            f"the agents of {row.short_id} do not read its store, `{row.store}`, while it runs",
            hint="runs whose store is a folder of this machine can be scaled",
        )
    wish = _read(text)
    most = wish.get("size") or wish.get("max") or 0
    if most > elastic.max_nodes:
        raise CheckFailed(
            f"{row.short_id} was submitted for at most {elastic.max_nodes} nodes, and {most} were asked for",
            hint=f"ask for at most {elastic.max_nodes}, or `gofer resubmit` it with more",
        )
    if wish.get("size", elastic.min_nodes) < elastic.min_nodes:
        raise CheckFailed(
            f"{row.short_id} needs at least {elastic.min_nodes} nodes, and {wish['size']} was asked for",
            hint=f"give other bounds: `gofer scale {row.short_id} {wish['size']}:{elastic.max_nodes}`",
        )
    key = f"{run_layout.elastic_key(row.id)}/{run_layout.WISH}"
    session.store(row.store).put(key, encode(wish))
    return f"{wish['size']} nodes" if "size" in wish else f"{wish['min']} to {wish['max']} nodes"


def _read(text: str) -> dict[str, int]:
    """UsageError for text that is neither a number nor two numbers in order."""
    words = text.split(":")
    numbers = [int(word) if word.isascii() and word.isdigit() else 0 for word in words]
    if len(words) > 2 or 0 in numbers or numbers != sorted(numbers):
        raise UsageError(f"`{text}` is no number of nodes", hint="write `3`, or `2:6` for two to six")
    return {"size": numbers[0]} if len(numbers) == 1 else {"min": numbers[0], "max": numbers[1]}
