"""A project folder with a session of its own: real settings, ledger and store, all below one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unit.ops.run_folders import RunFolder, make_record

from gofer.model.run import RunRecord
from gofer.ops.messages import AnyMessage
from gofer.ops.session import Session
from gofer.ops.submission.ledger_rows import rows_of_record
from gofer.storage.base import Store
from gofer.tracking.ledger import RunRow

# The submitter is another machine: no test may start the commands of these runs here.
ELSEWHERE = "1:1:boot@elsewhere"


class OpsProject:
    """A project folder, a session on it, its default store, and the messages of the session in `said`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "project"
        self.folder.mkdir()
        self.said: list[str] = []
        self.environ = {
            "HOME": str(root / "home"),
            "GOFER_HOME": str(root / "gofer"),
            "PATH": "/usr/bin:/bin",
        }
        self.session = self.open()

    def open(self) -> Session:
        return Session(
            folder=self.folder, environ=self.environ, emit=lambda message: self.said.append(str(message))
        )

    def note(self, message: AnyMessage) -> None:
        self.said.append(str(message))

    @property
    def store(self) -> Store:
        return self.session.store("default")

    def add(self, record: RunRecord | None = None, **changes: Any) -> RunRow:
        """Record a run, in the ledger and in the store; `changes` are columns of its line."""
        record = record or make_record()
        rows = rows_of_record(record, store=self.store.url, submitter=ELSEWHERE)
        rows[0] = rows[0]._replace(**changes)
        self.session.ledger.insert(rows)
        self.run_folder(record.id).store.put(f"runs/{record.id}/run.json", rows[0].record)
        return self.get(record.id)

    def get(self, run_id: str) -> RunRow:
        row = self.session.ledger.get(run_id)
        assert row is not None
        return row

    def run_folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.store, run_id)
