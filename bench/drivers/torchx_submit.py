"""`torchx_submit.py FOLDER ARGV…`: one command through torchx's local_cwd scheduler; prints when run
returned.

The Python interface, because `torchx run -s local_cwd` returns only when the command has ended.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from torchx import specs  # type: ignore[import-not-found, unused-ignore]
from torchx.runner import get_runner  # type: ignore[import-not-found, unused-ignore]


def main(folder: str, argv: Sequence[str]) -> None:
    role = specs.Role(name="bench", image="", entrypoint=argv[0], args=list(argv[1:]))
    with get_runner() as runner:
        handle = runner.run(specs.AppDef(name="bench", roles=[role]), "local_cwd", {"log_dir": folder})
        print(json.dumps({"returned": time.perf_counter()}), flush=True)
        status = runner.wait(handle, wait_interval=0.1)
    if status is None or status.state != specs.AppState.SUCCEEDED:
        raise SystemExit(f"torchx says {status}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
