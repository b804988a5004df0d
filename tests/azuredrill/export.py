"""`python -m azuredrill.export FOLDER`: write what gofer shows of each run in the ledger to a folder.

FOLDER/<run>.<attempt>.<rank>.log is the output of `gofer logs`; FOLDER/<run>.outputs/ has the files of
`gofer extract`. One process handles all runs, with the settings of the user.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gofer.core.run_layout import outputs_key
from gofer.ops.logs.log_copies import mirror
from gofer.ops.logs.log_reader import LogReader
from gofer.ops.logs.log_sources import LogChoice
from gofer.ops.session import Session
from gofer.tracking.ledger import RunRow
from gofer.tracking.query import Query


def main(folder: Path) -> None:
    folder.mkdir()
    with Session(emit=lambda _: None) as session:
        for row in session.ledger.select(Query(include_rows=True)):
            if row.kind == "run":
                bring(session, row, folder)


def bring(session: Session, row: RunRow, folder: Path) -> None:
    reader = LogReader(session, row)
    for log in reader.files():
        if log.rank is not None:
            shown = reader.read(LogChoice(log.rank, log.node, log.attempt))
            path = folder / f"{row.id}.{log.attempt}.{log.rank}.log"
            path.write_bytes(b"".join(shown))
    mirror(session.runs_in(row.store), outputs_key(row.id), folder / f"{row.id}.outputs", grows=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
