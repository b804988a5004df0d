"""Words of other tools, and the words of gofer that replace them. Data only.

A verb is accepted where gofer has a verb. Options are accepted only before the verb, as in those tools; after
the verb, they belong to the command that is run.
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
    "ps": ("list",),
    "status": ("query",),
    "show": ("query",),
    "stop": ("abort",),
    "kill": ("abort",),
    "log": ("logs",),
}

# The first word that asks for help: `gofer help VERB` is `gofer VERB --help`.
HELP = "help"

# Remarks for words that do less in gofer than in the older tool, and for words of tools that gofer is like.
REMARKS = {
    **dict.fromkeys(
        ("initc", "initic"), "nothing is compiled here: each node runs `compile.aml.sh` before the command"
    ),
    **{
        word: f"note: `gofer {word}` is `gofer {' '.join(VERBS[word])}`"
        for word in ("ps", "status", "show", "stop", "kill", "log")
    },
}

_TABLE = "`gofer list runs --columns NAME,…` shows runs side by side, and `--export FILE` writes them down"

# Words without a replacement, and the nearest alternative.
NEAREST = {
    "plot": f"this release draws nothing; {_TABLE}",
    "explore": f"this release draws nothing; {_TABLE}",
    "view metrics": "this release keeps no metrics; `gofer logs RUN` shows what a run printed",
    "view database": _TABLE,
    "view errors": "`gofer why RUN` says why a run failed",
    "view events": "`gofer q RUN` shows the state of a run",
}

# Options that left out details of a query. These details are fast now, so most options have no effect.
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
