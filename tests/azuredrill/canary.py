"""Looks for secrets where none may be: what commands said, gofer's files, the store, jobs, command lines."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from services.azure import Azure

# Tokens and signatures change all the time, so they are recognized by their form.
_TOKEN = re.compile(rb"eyJ[\w-]{16,}\.eyJ[\w-]{16,}\.")
_SIGNATURE = re.compile(rb"sig=[\w%+/-]{20,}")
# Files that are there to hold secrets, for their owner alone.
_MEANT = (re.compile(r"(^|/)secrets\.json$"), re.compile(r"(^|/)tokens/[^/]+\.json$"))
_SAMPLE_S = 0.2


class Canary:
    """`known` are secrets by what they are called. `find` says which of them a text shows."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._patterns = {"a token": _TOKEN, "the signature of a SAS": _SIGNATURE}
        for name, value in known.items():
            forms = {value, quote(value, safe=""), json.dumps(value)[1:-1]}
            self._patterns[name] = re.compile(b"|".join(re.escape(form.encode()) for form in sorted(forms)))

    def find(self, data: bytes) -> list[str]:
        return [name for name, pattern in self._patterns.items() if pattern.search(data)]

    def in_files(self, root: Path) -> Iterator[str]:
        """Every file below, but those that are meant for secrets and closed to others."""
        for path in sorted(root.rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            name = str(path.relative_to(root))
            found = self.find(path.read_bytes())
            is_meant = any(pattern.search(name) for pattern in _MEANT)
            if is_meant and stat.S_IMODE(path.stat().st_mode) & 0o077:
                yield f"{name} can be read by others"
            if found and not is_meant:
                yield f"{name} holds {', '.join(found)}"

    def in_store(self, azure: Azure) -> Iterator[str]:
        """Every blob of every account, the service's own logs among them."""
        for account in azure.keys:
            client = azure.blob_client(account)
            for container in client.list_containers():
                held = client.get_container_client(container.name)
                for blob in held.list_blobs():
                    found = self.find(held.download_blob(blob.name).readall())
                    if found:
                        yield f"the blob {container.name}/{blob.name} holds {', '.join(found)}"

    def in_jobs(self, azure: Azure) -> Iterator[str]:
        """The fields of jobs that every user of the workspace can read."""
        for job in azure.admin("GET", "/jobs")["value"]:
            found = self.find(json.dumps(job).encode())
            if found:
                yield f"the job {job['name']} shows {', '.join(found)}"


class CommandLines:
    """Looks at the words of all processes that belong to `folder` again and again, from a thread."""

    def __init__(self, canary: Canary, folder: Path) -> None:
        self._canary = canary
        self._mark = os.fsencode(folder)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_repeatedly, daemon=True)
        self.seen = 0
        self.wrong: set[str] = set()

    def __enter__(self) -> CommandLines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look_repeatedly(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            for words in self._words():
                self.seen += 1
                self.wrong |= {
                    f"a command line shows {name}: {words[:40]!r}…" for name in self._matches(words)
                }

    def _matches(self, words: bytes) -> Iterable[str]:
        return self._canary.find(words)

    def _words(self) -> Iterator[bytes]:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                around = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if self._mark in words or self._mark in around:
                yield words
