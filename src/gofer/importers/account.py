"""The account file of the older Azure tools: one blob container and its credential.

    account_name: acct
    account_key: …            # or
    sas_token: ?sv=…          # with or without the `?`
    container_name: data
    endpoint: http://…        # only for emulators and private clouds

The file becomes an entry of `stores:`. Other keys are ignored, since other programs may use them. A value may
be a reference, as in `gofer.yaml`. The credentials are masked in all messages from then on.
"""

from __future__ import annotations

import os
from pathlib import Path

from gofer.config.redact import remember
from gofer.config.references import holds_reference
from gofer.config.yaml.document import display, read_document
from gofer.config.yaml.nodes import Node, Scalar, Table
from gofer.errors import ConfigError
from gofer.text import did_you_mean

# In this file -> in an entry of `stores:`
_KEYS = {
    "account_name": "account",
    "account_key": "key",
    "sas_token": "sas",
    "container_name": "url",
    "endpoint": "endpoint",
}
_NEEDED = ("account_name", "container_name")
_SECRET = ("account_key", "sas_token")


def read_account(path: Path) -> Table:
    """The file as an entry of `stores:`; ConfigError when it is unreadable or says too little."""
    if not path.exists():
        raise ConfigError(
            f"there is no account file `{display(path)}`",
            hint=near_file(path)
            or "write it with the keys `account_name`, `container_name` and `account_key` or `sas_token`",
        )
    document = read_document(path)
    found = {key: _scalar(key, node) for key, node in document.entries.items() if key in _KEYS}
    values = {key: node for key, node in found.items() if not node.is_null and node.text.strip()}
    for key in _NEEDED:
        if key not in values:
            raise ConfigError(
                f"the account file needs the key `{key}`",
                where=f"{display(path)}:1",
                hint=did_you_mean(key, [one for one in document.entries if one not in _KEYS]),
            )
    for key in _SECRET:
        if key in values and not holds_reference(values[key].text):
            mask_token(values[key].text)
    container = values["container_name"]
    values["container_name"] = container._replace(text=f"az://{container.text.strip('/')}")
    return Table({_KEYS[key]: node for key, node in values.items()}, document.place)


def near_file(path: Path) -> str | None:
    """A hint naming the file beside it that is called most like it; None when there is none."""
    try:
        beside = sorted(os.listdir(path.parent))
    except OSError:
        return None
    return did_you_mean(path.name, [name for name in beside if name.endswith(path.suffix)])


def holds_credential(path: Path) -> bool:
    """Whether the file is an account file with a key or a token written out; False when it cannot be read."""
    try:
        entries = read_document(path).entries
    except ConfigError:
        return False
    return any(
        isinstance(node, Scalar) and node.text.strip() and not node.is_null and not holds_reference(node.text)
        for node in (entries.get(key) for key in _SECRET)
    )


def _scalar(key: str, node: Node) -> Scalar:
    if not isinstance(node, Scalar):
        raise ConfigError(f"`{key}` must be text", where=node.place.where)
    return node


def mask_token(value: str) -> None:
    """Mask the token, and also its signature alone, since a URL may have its parts in another order."""
    from urllib.parse import unquote

    remember(value.lstrip("?"))
    for part in value.split("&"):
        if part.lstrip("?").startswith("sig="):
            remember(unquote(part.partition("=")[2]))
