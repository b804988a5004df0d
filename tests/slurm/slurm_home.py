"""`SlurmHome`: a `Home` on the login node of a Slurm cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.slurm import Slurm
from home import Home, until

from gofer.ops.session import Session


class SlurmHome(Home):
    """A home with the target `lab`; `options` are more of its options, `store` another store's entry."""

    def __init__(self, root: Path, slurm: Slurm, *, options: str = "", store: str = "") -> None:
        super().__init__(root)
        self.slurm = slurm
        self.far = root / "far"
        self._store = root / "shared"
        self._store.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in self.environ.items() if not name.startswith("SLURM_")}
        self.environ = {**kept, **slurm.exports}
        self.target(options, store=store)

    @property
    def store(self) -> Path:
        return self._store

    def target(self, options: str = "", *, store: str = "") -> None:
        """Write gofer.yaml."""
        own = f"gpus_per_node: 4, folder: {self.far}, scratch: {self.root}, store: fs"
        more = f", {options}" if options else ""
        url = store or f"{{url: 'file://{self._store}'}}"
        self.configure(f"targets:\n  lab: {{kind: slurm, {own}{more}}}\nstores:\n  fs: {url}\ntarget: lab\n")

    def session(self) -> Session:
        """Verbs that are done in this process find Slurm by its variables."""
        return Session(self.folder, self.environ, emit=lambda _: None)

    def handoff_folder(self, run_id: str) -> Path:
        return self.far / "slurm" / run_id

    def job(self, run_id: str) -> str:
        """The number of the run's job."""
        return until(lambda: _read(self.handoff_folder(run_id) / "job"), f"a job of {run_id}")

    def jobs(self, run_id: str) -> list[str]:
        """Every job of the run that Slurm remembers."""
        lines = self.slurm.call("squeue", "--noheader", "--states=all", "--format=%A %j").splitlines()
        return [line.split()[0] for line in lines if line.endswith(run_id)]

    def completed(self, run_id: str) -> list[str]:
        """Every job of the run that ended, in the controller's own list, which forgets nothing."""
        output = (self.slurm.folder / "logs" / "jobs.txt").read_text().splitlines()
        return [line for line in output if f"{run_id} " in line]

    def until_view(self, run_id: str, **wanted: Any) -> dict[str, Any]:
        """The run's JSON once these facts of it are so."""

        def matching_view() -> dict[str, Any]:
            seen = self.view(run_id)
            return seen if all(seen[name] == value for name, value in wanted.items()) else {}

        return until(matching_view, f"{run_id} with {wanted}", timeout_s=200)


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
