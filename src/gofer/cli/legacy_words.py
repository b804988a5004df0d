"""Words of older tools that are not gofer's, and gofer's words for them. Data only.

Verbs may stand where a verb does. Options hold only before the verb, where those tools take them; behind it
they belong to the command that is run.
"""

from __future__ import annotations

_FAILED = ("list", "runs", "--filter", "state=failed")

VERBS: dict[str, tuple[str, ...]] = {
    "qq": ("list", "runs", "--filter", "state=queued"),
    "qr": ("list", "runs", "--filter", "state=running"),
    "f": _FAILED,
    "qf": _FAILED,
    "failed": _FAILED,
    "a": ("abort",),
    "s": ("target", "show"),
    "summary": ("target", "show"),
    "initc": ("init",),
    "initi": ("init",),
    "initic": ("init",),
    "local": ("submit", "-t", "local"),
}

# What a person should know whom a word here does not give all that it gave there.
REMARKS = dict.fromkeys(
    ("initc", "initic"), "nothing is compiled here: each node runs `compile.aml.sh` before the command"
)

_TABLE = "`gofer list runs --columns NAME,…` shows runs side by side, and `--export FILE` writes them down"

# Words that nothing here stands for, and what comes nearest.
NEAREST = {
    "plot": f"this release draws nothing; {_TABLE}",
    "explore": f"this release draws nothing; {_TABLE}",
    "view metrics": "this release keeps no metrics; `gofer logs RUN` shows what a run printed",
    "view database": _TABLE,
    "view errors": "`gofer why RUN` says why a run failed",
    "view events": "`gofer q RUN` says what became of a run",
}

# Each detail that could be left out of a query is cheap now, so most of these say nothing.
FLAGS: dict[str, tuple[str, ...]] = {
    "-single": ("--single",),
    "-no-wl": ("--no-logs",),
    "-no-dt": (),
    "-no-lf": (),
    "-no-wg": (),
    "-no-m": (),
    "-no-s": ("--dry-run",),
    "-wl": (),
}

VALUED = {
    "-rt": "-t",
    "--resubmit_to": "-t",
    "--cluster": "-c",
    "--num_gpu": "-n",
    "--from_cluster": "--from",
}

# Options that became a variable of the run.
VARIABLES = dict.fromkeys(("-ca", "--compile_args"), "ACT_COMPILE_ARGS")
