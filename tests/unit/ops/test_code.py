"""What of gofer's own never goes along with the code."""

from __future__ import annotations

from pathlib import Path

from gofer.ops.session import Session
from gofer.ops.submission import code
from gofer.snapshot.contents import load


def test_a_home_inside_the_code_folder_does_not_travel(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    home = folder / ".own [x]"
    home.mkdir(parents=True)
    (folder / "train.py").write_text("print()")
    (home / "notes.txt").write_text("not gofer's")
    for name in ("secrets.json", "ledger.db", "ledger.db-wal", "config.yaml"):
        (home / name).write_text("private")
    (home / "engine").mkdir()
    (home / "engine" / "x").write_text("private")
    environ = {"GOFER_HOME": str(home), "HOME": str(tmp_path)}
    with Session(folder, environ, emit=lambda _: None) as session:
        (home / "config.yaml").unlink()
        url = session.settings.store("default").url
        taken = code.take(session, code.Source(folder), url, target="local")
        names = sorted(entry.path for entry in load(session.store(url), taken.id).entries)
    assert names == [b".own [x]/notes.txt", b"train.py"]
