"""The command and the secret of a run whose job is a function."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import msgspec

from gofer.core.secrets.run_secrets import RunSecrets
from gofer.model.job import Job
from gofer.node.functions.names import KEY_VARIABLE
from gofer.node.packages.package_files import NONE

if TYPE_CHECKING:
    from gofer.backends.base import Capabilities
    from gofer.ops.functions.archive import PackedFunction

_PYTHON = "python"
# The node replaces this word by the path of the file.
_FILE = "function.zip"
_KEY_BYTES = 32


def function_command(packed: PackedFunction) -> tuple[str, ...]:
    """`python function.zip train.main`"""
    return (_PYTHON, _FILE, packed.facts.name)


def with_python(job: Job, capabilities: Capabilities) -> Job:
    """The job with its Python: this very one where the nodes have the environment of this process, else the
    one that the node or the packages of the run have.
    """
    has_ours = capabilities.sees_environment and job.packages in (None, NONE)
    python = _this_python() if has_ours and sys.executable else _PYTHON
    return msgspec.structs.replace(job, command=(python, *job.command[1:]))


def _this_python() -> str:
    """The path of this Python, in words without `..`. The last name stays: a link to a Python may lie in a
    virtual environment.
    """
    folder, name = os.path.split(sys.executable)
    return os.path.join(os.path.realpath(folder), name)


def with_result_key(private: RunSecrets) -> RunSecrets:
    """The secrets of a run with a new key, by which its results are known to be its own."""
    environment = {**private.environment, KEY_VARIABLE: os.urandom(_KEY_BYTES).hex()}
    return private._replace(environment=environment, secrets=[*private.secrets, KEY_VARIABLE])


def result_key_of(private: RunSecrets) -> bytes:
    """The key that `with_result_key` has made."""
    return bytes.fromhex(private.environment[KEY_VARIABLE])
