"""The words of the command line and where each lives: data only, so that `gofer --help` loads no command.

A module named here lies in `gofer.cli` and holds one `command`.
"""

from __future__ import annotations

# word -> (module, one line of help, other words for the same)
Table = dict[str, tuple[str, str, tuple[str, ...]]]

VERBS: Table = {
    "submit": ("submit", "Run a command on a target", ("run",)),
    "query": ("query", "Show where a run stands: its log's end, log files and facts", ("q",)),
    "list": ("", "List runs, jobs of a service, targets or nodes", ()),
    "logs": ("logs", "Print or follow the log of a run", ()),
    "monitor": ("monitor", "Stay with a run: its state and its log, live", ()),
    "why": ("why", "Say why a run waits, or why it died, and what to type next", ()),
    "wait": ("wait", "Wait for runs to end and exit with their status", ()),
    "ssh": ("ssh", "Open a shell where a run runs, or run a command there", ()),
    "abort": ("abort", "Stop runs", ("cancel",)),
    "resubmit": ("resubmit", "Run again what was run before, here or on another target", ("rerun",)),
    "view": ("", "Show the web page of a target or a run, or a log", ()),
    "extract": ("extract", "Bring back the code, logs and outputs of a run", ()),
    "tag": ("tag", "Set, show or remove tags of a run", ()),
    "init": ("init", "Make this folder ready and send its code", ()),
    "ls": ("ls", "List data in a mapped folder or a store", ()),
    "upload": ("upload", "Send data to where its mapped folder lies, or from target to target", ("u",)),
    "download": ("download", "Bring data from where its mapped folder lies", ("d",)),
    "rm": ("rm", "Remove data from a store", ()),
    "cp": ("cp", "Copy data between this machine and stores", ()),
    "sync": ("sync", "Make a folder like another", ()),
    "cat": ("cat", "Print files of a store", ()),
    "du": ("du", "Show how much lies in a folder of a store", ()),
    "url": ("url", "Print an address that opens a file for a while", ()),
    "config": ("", "Show the settings and where each comes from", ()),
    "target": ("", "Show the targets that commands can run on", ()),
    "store": ("", "Show and check the stores of code, logs and data", ()),
    "secret": ("", "Keep secret values out of files and records", ()),
    "image": ("", "Show container images, and make them fit for Singularity", ()),
    "login": ("login", "Sign in to Azure, in a profile of its own where wanted", ()),
    "logout": ("logout", "Sign out of Azure and forget its tokens", ()),
    "account": ("", "Show and choose among Azure logins", ()),
    "ledger": ("", "Look after the local index of runs", ()),
    "prune": ("prune", "Remove what gofer keeps and no run needs any more", ()),
    "doctor": ("doctor", "Check that gofer can work here", ()),
    "completion": ("completion", "Print the completion script of a shell", ()),
    "version": ("version", "Print the version", ()),
}

NOUNS: dict[str, Table] = {
    "list": {
        "runs": ("list_runs", "List runs, newest first", ()),
        "jobs": ("list_jobs", "List runs, or with --server the jobs of a target's service", ()),
        "targets": ("target_list", "List the targets", ()),
        "nodes": ("list_nodes", "List the nodes of a target and what is free", ()),
    },
    "view": {
        "portal": ("view_portal", "Print or open the web page of a target or a run", ()),
        "log": ("logs", "Print or follow the log of a run", ("logs",)),
    },
    "config": {
        "show": ("config_show", "Show every setting, its value and its origin", ()),
        "import": ("config_import", "Write files of older tools as gofer.yaml, and report every key", ()),
        "schema": ("config_schema", "Print the JSON Schema of gofer.yaml", ()),
    },
    "target": {
        "list": ("target_list", "List the targets", ()),
        "show": ("target_show", "Show one target: its options and what it has", ()),
    },
    "store": {
        "list": ("store_list", "List the stores", ()),
        "show": ("store_show", "Show one store and what opens it", ()),
        "check": ("store_check", "Check that stores can be listed, written, read and deleted from", ()),
    },
    "secret": {
        "set": ("secret_set", "Keep a secret, typed without echo or read from stdin", ()),
        "list": ("secret_list", "List the names of the secrets", ()),
        "rm": ("secret_rm", "Forget secrets", ()),
    },
    "image": {
        "list": ("image_list", "List the images", ()),
        "show": ("image_show", "Show one image and its wrapped one", ()),
        "wrap": ("image_wrap", "Make an image fit for Singularity", ()),
    },
    "account": {
        "list": ("account_list", "List the profiles and who is signed in to each", ()),
        "show": ("account_show", "Show one profile: its user, tenant, subscriptions and tokens' ends", ()),
        "use": ("account_use", "Choose the profile that gofer works with", ()),
        "rm": ("account_rm", "Remove a profile and its login", ()),
    },
    "ledger": {
        "rebuild": ("ledger_rebuild", "Rebuild the index of runs from the stores", ()),
    },
}

# What a verb of two words means when the second is left out.
DEFAULT_NOUNS = {
    "list": "runs",
    "config": "show",
    "target": "list",
    "store": "list",
    "secret": "list",
    "image": "list",
    "account": "list",
}


def find(table: Table, word: str) -> str | None:
    """The word under which `word` stands in the table, itself or as another word for it."""
    if word in table:
        return word
    return next((name for name, (_, _, others) in table.items() if word in others), None)


def words(table: Table) -> list[str]:
    """Every word that `find` knows, in the table's order."""
    return [word for name, (_, _, others) in table.items() for word in (name, *others)]
