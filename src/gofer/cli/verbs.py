"""The words of the command line and the module of each. Data only, so that `gofer --help` loads no command.

The modules are in `gofer.cli.commands`. The command of `MODULE` is its `command`; the command of
`MODULE:NAME` is its `NAME`.
"""

from __future__ import annotations

# word -> (origin, one line of help, other words for the same)
Table = dict[str, tuple[str, str, tuple[str, ...]]]

# The verbs by what people do with them, in the order of `gofer --help`.
VERB_GROUPS: dict[str, Table] = {
    "Run": {
        "submit": ("runs.submit", "Run a command on a target", ("run",)),
        "resubmit": ("runs.resubmit", "Submit a run again, on its target or on another", ("rerun",)),
        "wait": ("runs.wait", "Wait for runs to end and exit with their status", ()),
        "abort": ("runs.abort", "Stop runs", ("cancel",)),
        "scale": ("runs.scale", "Change the number of nodes of an elastic run", ()),
        "ssh": ("runs.ssh", "Open a shell on the node of a run, or run a command there", ()),
        "tag": ("runs.tag", "Set, show or remove tags of a run", ()),
    },
    "Look": {
        "query": ("runs.query", "Show a run's state, last log lines and details", ("q",)),
        "list": ("", "List runs, jobs of a service, targets, nodes or logins", ()),
        "logs": ("runs.logs", "Print or follow the log of a run", ()),
        "monitor": ("runs.monitor", "Watch a run's state and log until it ends", ()),
        "why": ("runs.why", "Explain why a run waits or failed, and what to do next", ()),
        "view": ("", "Show the web page of a target or a run, or a log", ()),
        "extract": ("runs.extract", "Bring back the code, logs and outputs of a run", ()),
    },
    "Data": {
        "upload": ("data.upload", "Send files to their store, or from target to target", ("u",)),
        "download": ("data.download", "Bring files from their store", ("d",)),
        "ls": ("data.ls", "List data in a mapped folder or a store", ()),
        "cat": ("data.cat", "Print files of a store", ()),
        "cp": ("data.cp", "Copy data between this machine and stores", ()),
        "sync": ("data.sync", "Mirror one folder to another", ()),
        "rm": ("data.rm", "Remove data from a store", ()),
        "du": ("data.du", "Show the size of a folder in a store", ()),
        "url": ("data.url", "Create a temporary download link of a file", ()),
        "store": ("", "Show and check the stores of code, logs and data", ()),
    },
    "Clusters": {
        "target": ("", "Show, add and remove the targets that commands can run on", ()),
        "cluster": ("", "Make, show, scale and remove Kubernetes clusters in Azure", ()),
        "image": ("", "Show container images, and prepare them for Singularity", ()),
        "login": ("clusters.login", "Log in on the machines of a target, or sign in to Azure", ()),
        "logout": ("clusters.logout", "Close the connections of a target, or sign out of Azure", ()),
        "account": ("", "Show the Azure logins and choose one", ()),
    },
    "Settings": {
        "init": ("settings.init", "Prepare this folder: write gofer.yaml and send the code", ()),
        "config": ("", "Show, check and change the settings", ()),
        "secret": ("", "Save secret values outside files and records", ()),
        "doctor": ("settings.doctor", "Check that gofer works on this machine", ()),
        "prune": ("settings.prune", "Remove files that no run needs", ()),
        "ledger": ("", "Rebuild the local index of runs", ()),
        "completion": ("settings.completion", "Print the completion script of a shell", ()),
        "version": ("settings.version", "Print the version", ()),
    },
}

VERBS: Table = {name: entry for table in VERB_GROUPS.values() for name, entry in table.items()}

NOUNS: dict[str, Table] = {
    "list": {
        "runs": ("runs.list_runs", "List runs, newest first", ()),
        "jobs": ("runs.list_jobs", "List runs, or with --server the jobs of a target's service", ()),
        "targets": ("clusters.target:list_command", "List the targets", ()),
        "nodes": ("clusters.list_nodes", "List the nodes of a target and what is free", ()),
        "logins": ("clusters.machine_login:list_command", "List the open connections of `gofer login`", ()),
    },
    "view": {
        "portal": ("runs.view_portal", "Print or open the web page of a target or a run", ()),
        "log": ("runs.logs", "Print or follow the log of a run", ("logs",)),
    },
    "config": {
        "show": ("settings.config:show_command", "Show every setting, its value and its origin", ()),
        "get": ("settings.config_edit:get_command", "Print the value of a setting", ()),
        "set": ("settings.config_edit:set_command", "Set a key in a file of settings", ()),
        "unset": ("settings.config_edit:unset_command", "Remove a key from a file of settings", ()),
        "add": ("settings.config_edit:add_command", "Add settings that somebody shares", ()),
        "edit": ("settings.config_edit:edit_command", "Open a file of settings in an editor", ()),
        "check": ("settings.config_edit:check_command", "Print every error of the files of settings", ()),
        "path": ("settings.config_edit:path_command", "Print the path of a file of settings", ()),
        "import": (
            "settings.config:import_command",
            "Convert files of older tools to gofer.yaml",
            (),
        ),
        "schema": ("settings.config:schema_command", "Print the JSON Schema of gofer.yaml", ()),
    },
    "target": {
        "list": ("clusters.target:list_command", "List the targets", ()),
        "show": ("clusters.target:show_command", "Show one target: its options and what it has", ()),
        "add": ("clusters.target_add:add_command", "Add a target: visit its cluster and write it", ()),
        "rm": ("clusters.target_add:rm_command", "Remove a target", ()),
    },
    "cluster": {
        "create": ("clusters.cluster:create_command", "Make a cluster with a pool of GPU nodes", ()),
        "show": ("clusters.cluster:show_command", "Show a cluster, and what Azure works on", ()),
        "scale": ("clusters.cluster:scale_command", "Change the number of nodes of a pool", ()),
        "delete": ("clusters.cluster:delete_command", "Remove a cluster that gofer made", ()),
    },
    "store": {
        "list": ("data.store:list_command", "List the stores", ()),
        "show": ("data.store:show_command", "Show one store and the kind of its credential", ()),
        "check": (
            "data.store:check_command",
            "Check that stores can be listed, written, read and deleted from",
            (),
        ),
    },
    "secret": {
        "set": ("settings.secret:set_command", "Save a secret, typed without echo or read from stdin", ()),
        "list": ("settings.secret:list_command", "List the names of the secrets", ()),
        "rm": ("settings.secret:rm_command", "Remove secrets", ()),
    },
    "image": {
        "list": ("clusters.image:list_command", "List the images", ()),
        "show": ("clusters.image:show_command", "Show one image and its wrapped one", ()),
        "wrap": ("clusters.image:wrap_command", "Prepare an image for Singularity", ()),
    },
    "account": {
        "list": ("clusters.account:list_command", "List the profiles and who is signed in to each", ()),
        "show": (
            "clusters.account:show_command",
            "Show one profile: its user, tenant, subscriptions and tokens' ends",
            (),
        ),
        "use": ("clusters.account:use_command", "Choose the profile that gofer works with", ()),
        "rm": ("clusters.account:rm_command", "Remove a profile and its login", ()),
    },
    "ledger": {
        "rebuild": ("runs.ledger_rebuild", "Rebuild the index of runs from the stores", ()),
    },
}

# What a verb of two words means when the second is left out.
DEFAULT_NOUNS = {
    "list": "runs",
    "config": "show",
    "target": "list",
    "cluster": "show",
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
