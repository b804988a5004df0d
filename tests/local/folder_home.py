"""`FolderHome`: a `Home` whose runs have mapped folders in a store of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from home import Home
from services.azurite import Account
from services.moto import Moto

from gofer.ops.session import Session
from gofer.storage.base import Store

PROGRAMS = Path(__file__).resolve().parents[2] / ".test-services/programs/bin"


class FolderHome(Home):
    """The store `blob` holds the folders, below `me/<name>`; runs and code are in the built-in one.

    No mount program is on its PATH unless `add_programs` puts it there.
    """

    def __init__(self, root: Path, entry: Mapping[str, str], key: str = "") -> None:
        super().__init__(root)
        self.entry = dict(entry)
        self.environ["DUMMY_KEY"] = key
        self.environ["PATH"] = ":".join(
            one for one in self.environ["PATH"].split(":") if not (Path(one) / "rclone").exists()
        )
        self.map(data="copy")

    def map(self, **modes: str | None) -> None:
        """Write gofer.yaml with these folders; None leaves the mode out."""
        lines = ["stores:", f"  blob: {_flow(self.entry)}", "folders:"]
        for name, mode in modes.items():
            values = {"store": "blob", "path": f"me/{name}", **({"mode": mode} if mode else {})}
            lines.append(f"  {name}: {_flow(values)}")
        self.configure("\n".join(lines) + "\n")

    def add_programs(self) -> None:
        """Put rclone on the PATH; AssertionError with what to do when it is not installed."""
        assert (PROGRAMS / "rclone").exists(), (
            "rclone is missing: `bash scripts/test-services.sh` installs it"
        )
        self.environ["PATH"] = f"{PROGRAMS}:{self.environ['PATH']}"

    @property
    def blob(self) -> Store:
        return Session(self.folder, self.environ).store("blob")

    def put(self, files: Mapping[str, bytes], *, folder: str = "data") -> None:
        """Objects of a mapped folder, by their names in it."""
        store = self.blob
        for name, data in files.items():
            store.put(f"me/{folder}/{name}", data)

    def stored(self, folder: str) -> dict[str, bytes]:
        """What the store has of a folder."""
        store, lead = self.blob, f"me/{folder}/"
        return {info.key[len(lead) :]: store.get(info.key) for info in store.list(f"me/{folder}")}

    def run(self, *words: str) -> dict[str, Any]:
        """A run with the project's code, to its end; its JSON."""
        done = self.gofer("submit", "-Q", "--wait", "--json", *words, status=None)
        assert done.out, done.err
        return self._parsed(done)

    def begin(self, *words: str) -> str:
        """The id of a run with the project's code."""
        return self.gofer("submit", "-Q", *words).out.strip()

    def steps(self, run_id: str, step: str, *, attempt: int = 1, node: int = 0) -> list[dict[str, Any]]:
        """The events of one step of a folder."""
        events = self.events(run_id, attempt=attempt, node=node)
        return [one for one in events if one["event"] == "folder" and one["step"] == step]


def azure_entry(account: Account, endpoint: str | None = None) -> dict[str, str]:
    """An entry of `stores:` for a new container; its key is in DUMMY_KEY."""
    values = {"url": f"az://{account.new_container()}/pre", "account": account.name}
    return values | {"key": "${env:DUMMY_KEY}", "endpoint": endpoint or account.endpoint}


def s3_entry(moto: Moto) -> dict[str, str]:
    """As `azure_entry`, for a new bucket."""
    values = {"url": f"s3://{moto.new_bucket()}/pre", "endpoint": moto.endpoint}
    return values | {"access_key": moto.access_key, "secret_key": "${env:DUMMY_KEY}"}


def _flow(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: '{value}'" for name, value in values.items()) + "}"
