"""Writes a file of settings in one step, with the mode that it has."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gofer.config.yaml.document import display
from gofer.core import private_folder
from gofer.core.files import write_whole
from gofer.errors import ConfigError


def write_settings(path: Path, text: str, *, private: bool = False) -> None:
    """Write the file and its missing folders; ConfigError when that is not possible. A link stays a link, and
    an existing file keeps its mode. `private`: a new file is readable by the user only.
    """
    real = Path(os.path.realpath(path))
    try:
        if private:
            private_folder.make_missing(real.parent)
        else:
            real.parent.mkdir(parents=True, exist_ok=True)
        exists = real.exists()
        mode = stat.S_IMODE(real.stat().st_mode) if exists else 0o600 if private else 0o644
        write_whole(str(real), text.encode(), mode=mode, durable=True, exact_mode=exists or private)
    except OSError as error:
        raise ConfigError(f"cannot write `{display(path)}`: {error.strerror}") from None
