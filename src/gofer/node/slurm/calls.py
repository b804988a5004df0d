"""Run Slurm's programs on this machine, and distinguish a refusal from a missing answer."""

from __future__ import annotations

import os
import pwd
import re
from typing import Any, Sequence

from gofer.core import files, private_folder
from gofer.core.command.programs import CompletedProgram, run_program
from gofer.core.json_text import parse_count

_TIMEOUT_S = 60.0
_SITE_MAX_AGE_S = 86400.0
# Errors after which it is unknown whether the controller received the request.
_NO_ANSWER = re.compile(
    r"timed out|unable to contact slurm controller|connection (refused|reset|timed)|connect failure|"
    r"communication connection failure|zero bytes were transmitted|unexpected message|"
    r"temporarily unable|not responding|protocol authentication error|munge",
    re.IGNORECASE,
)
# Slurm's default of MaxArraySize.
_MAX_ARRAY_SIZE = 1001
_PLAIN = {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


class SlurmError(Exception):
    """A program of Slurm failed. The text is Slurm's error. The subclass SlurmSilent says that the request
    may have been carried out: catch it first.
    """


class SlurmSilent(SlurmError):
    """Slurm gave no answer that can be read. It may or may not have carried out the request."""


def call(argv: list[str], *, data: bytes = b"", cwd: str | None = None, timeout_s: float = _TIMEOUT_S) -> str:
    """Run a program that may be run twice; its output. Blocks. Raises SlurmError or SlurmSilent."""
    return _finish(argv, run_program(argv, data=data, env=_PLAIN, cwd=cwd, timeout_s=timeout_s))


def sbatch(script: str, cwd: str, *, timeout_s: float, options: Sequence[str] = ()) -> str:
    """Submit a script, with more options than its own; the number of the new job or job array. Blocks. After
    SlurmSilent the job may exist, so do not simply repeat the call.
    """
    argv = ["env", *_unset(), "sbatch", "--parsable", *options, script]
    answer = _finish(argv, run_program(argv, cwd=cwd, timeout_s=timeout_s))
    found = re.search(r"^(\d+)(;.*)?$", answer, re.MULTILINE)
    if found is None:
        raise SlurmSilent(f"`sbatch` printed no job number: {answer.strip()[:200]!r}")
    return found.group(1)


def _unset() -> list[str]:
    """Arguments of `env`. They unset the variables of a job in which gofer itself runs, and variables that
    would override options of the script.
    """
    own = [
        name
        for name in os.environ
        if name.startswith(("SLURM_", "GOFER_")) and name not in ("SLURM_CONF", "SLURM_CLUSTERS")
    ]
    options = ("JOB_NAME", "OUTPUT", "ERROR", "INPUT", "ARRAY_INX", "OPEN_MODE", "EXPORT", "WAIT", "REQUEUE")
    own += [f"SBATCH_{option}" for option in (*options, "NO_REQUEUE", "TIMELIMIT", "SIGNAL")]
    return [word for name in own for word in ("-u", name)]


def _finish(argv: list[str], done: CompletedProgram) -> str:
    program = next(word for word in argv if word in _PROGRAMS or word == argv[-1])
    status, complaints = done.status, done.complaints.strip()
    if status is None:
        raise SlurmSilent(f"`{program}` did not answer in time")
    if status != 0:
        words = _error_text(complaints) or f"it exited with {status}"
        kind = SlurmSilent if status < 0 or _NO_ANSWER.search(complaints) else SlurmError
        raise kind(f"`{program}`: {words}")
    return done.output.decode("utf-8", "replace")


_PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo", "sacctmgr")


def _error_text(complaints: str) -> str:
    """The end of the program's error, as one line, without the program's name."""
    lines = [line for line in complaints.splitlines() if line.strip()]
    return "; ".join(re.sub(r"^\w+: (error: )?", "", line) for line in lines[-2:])[:400]


def user() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


class SlurmSite:
    """Facts from the configuration of a Slurm cluster."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.kill_wait_s = float(known["kill_wait_s"])
        self.most_rows = int(known["most_rows"])
        self.has_accounting = bool(known["accounting"])


def site(folder: str, now: float) -> SlurmSite:
    """The facts of the cluster that this machine uses. gofer asks for them once a day, and keeps them in its
    `folder` on the cluster. Blocks. Raises SlurmError or SlurmSilent, and OSError when the facts cannot be
    kept.
    """
    path = os.path.join(os.path.expanduser(folder), "slurm", "site.json")
    cluster = os.environ.get("SLURM_CONF", "")
    known = files.read_json(path)
    if known is None or known.get("conf") != cluster or not 0 <= now - known["at"] < _SITE_MAX_AGE_S:
        text = call(["scontrol", "show", "config"])
        known = {"at": now, "conf": cluster, **_parse_site(text)}
        private_folder.make_missing(os.path.dirname(path))
        files.write_whole(path, files.encode(known))
    return SlurmSite(known)


def _parse_site(text: str) -> dict[str, object]:
    found = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))
    seconds = re.match(r"\d{1,9}", found.get("KillWait", ""))
    rows = parse_count(found.get("MaxArraySize", ""))
    storage = found.get("AccountingStorageType", "")
    return {
        "kill_wait_s": float(seconds.group()) if seconds else 30.0,
        "most_rows": _MAX_ARRAY_SIZE if rows is None else rows,
        "accounting": storage not in ("", "(null)", "accounting_storage/none"),
    }
