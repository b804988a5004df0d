"""The sections of XT's file of which nothing, or little, can be carried, and why; and the word `$username` in
its values, which XT itself replaces.
"""

from __future__ import annotations

import os
import re
from getpass import getuser

from gofer.importers.draft import ImportDraft

_TABLES = "`gofer list runs` has `--columns`, `--sort`, `--filter` and `--last`"
_SEARCH = "gofer has arrays: `gofer submit --each lr=0.1,0.01 …`; it searches nothing by itself"
_CODE = "gofer sends the code of each run to the target's store by itself"
_OUTPUT = "what a run leaves in `$GOFER_OUTPUT_DIR` is kept"

# Whole sections.
DROPPED = {
    "logging": "gofer always keeps logs",
    "internal": "they are about XT itself; `--debug` shows a traceback",
    "early-stopping": _SEARCH,
    "hyperparameter-search": _SEARCH,
    "hyperparameter-explorer": _SEARCH,
    "run-reports": _TABLES,
    "job-reports": _TABLES,
    "node-reports": _TABLES,
    "plots": "gofer draws no plots from settings",
    "team": "gofer has no teams; every reader of the store sees its runs",
    "database": "the store holds what XT kept in a database",
    "mirroring": "`job.sync` names outputs that go to the store while a run runs",
    "mounting": "gofer mounts with its own options",
    "tensorboard": "gofer starts no tensorboard",
    "script-launch-prefix": "gofer starts a command as it is, without a shell",
    "azure-batch-images": "gofer has no kind of target for Azure Batch",
    "providers": "they are classes of XT; other packages add kinds of targets to gofer by entry points",
    "commands": "they are XT's own; a job file (`gofer submit --job FILE`) holds a command",
    "after-files": _OUTPUT,
}

GENERAL = {
    "advanced-mode": "gofer has one mode",
    "username": "gofer asks the system who you are",
    "azure-tenant-id": "`gofer login --tenant T` signs in to it, and remembers it with the profile",
    "feedback": "`-Q` turns it off",
    "run-cache-dir": "gofer keeps its index in its own folder",
    "distributed": "a run with more than one node is always one job; see `launchers` in the docs",
    "direct-run": "gofer has no controller",
    "quick-start": "gofer always starts quickly",
    "authentication": "gofer uses `az login`, a managed identity or a service principal, whichever there is",
    "xt-team-name": "gofer has no teams; every reader of the store sees its runs",
    "remote-control": "gofer has no controller",
    "monitor": "`gofer logs -f` follows a run",
    "primary-metric": _SEARCH,
    "maximize-metric": _SEARCH,
    "step-name": _SEARCH,
}

CODE = {
    "code-dirs": "the folder of `gofer.yaml` is the code",
    "code-upload": _CODE,
    "code-zip": _CODE,
    "xtlib-upload": "a run needs no part of gofer beside its agent",
    "working-dir": "submit from that folder; a run works where it was submitted",
}

AML = {
    "use-gpu": "`-n` says how many GPUs a run has",
    "framework": "a run has an image",
    "fw-version": "a run has an image",
    "user-managed": "a run has an image",
}

SERVICES = {
    "philly": "Philly is gone",
    "batch": "gofer has no kind of target for Azure Batch",
    "mongo": "the store holds what XT kept in a database",
    "odbc": "the store holds what XT kept in a database",
    "database": "the store holds what XT kept in a database",
    "vault": "`gofer secret set NAME` keeps secrets",
}

TARGET = {
    "azure-image": "it is about Azure Batch",
    "box-class": "gofer starts a command as it is, without a shell",
    "vc": "it is about Philly",
    "cluster": "it is about Philly",
    "queue": "it is about Philly",
    "sku": "it is about Philly",
    "name": "the target's own name is used",
    "environment": "a run has an image",
}

_USER = re.compile(r"\$username\b")


def name_user(draft: ImportDraft, text: str) -> str:
    """The text with the person's name for `$username`; one without that word comes back as it is."""
    if not _USER.search(text):
        return text
    name = _login_name()
    draft.note(
        f"XT's `$username` is written out as `{name}`; in a file that others use too, `${{env:USER}}` says "
        "it in `stores`, `folders` and `job.env`"
    )
    return _USER.sub(lambda _: name, text)


def _login_name() -> str:
    """A container may give its user no name at all."""
    try:
        return getuser()
    except (KeyError, OSError):
        return str(os.getuid())
