"""`python -m bench.snapshot_once FOLDER STORE CACHE`: one snapshot in a process of its own; prints what
was sent.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(folder: Path, store: Path, cache: Path) -> None:
    from gofer.snapshot.capture import take_snapshot
    from gofer.storage.open import open_store

    taken = take_snapshot(folder, open_store(store.as_uri(), create=True), cache_dir=cache)
    print(json.dumps({"files": taken.files, "sent_files": taken.sent_files, "sent_bytes": taken.sent_bytes}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
