"""Launchers in shell scripts, as submit sees them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gofer.ops.submission.own_launcher import find

TORCHRUN = "#!/bin/bash\nset -e\n# torchrun in a comment\nexport A=1\nexec uv run torchrun \\\n  train.py\n"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("sh -c 'torchrun train.py'", ("`sh -c`", "torchrun")),
        ("bash -lc 'cd x && /opt/bin/mpirun -np 2 ./solver'", ("`bash -c`", "mpirun")),
        ("env A=b bash -euo pipefail -c 'accelerate  launch x.py'", ("`bash -c`", "accelerate launch")),
        ("sh -c 'python -u -m torch.distributed.run x.py'", ("`sh -c`", "torch.distributed.run")),
        ("sh -c 'timeout 1h python -mtorch.distributed.run x.py'", ("`sh -c`", "torch.distributed.run")),
        ("bash run.sh 8", ("`run.sh`", "torchrun")),
        ("./run.sh 8", ("`./run.sh`", "torchrun")),
        ("bash absent.sh", None),
        ("sh -c 'echo hello'", None),
        ("sh -c '# torchrun\necho x'", None),
        ("sh -c 'python torchrun.py; ls my-mpirun; deepspeed_train x'", None),
        ("python train.py torchrun", None),
        ("./train.py", None),
        ("bash", None),
        ("env", None),
    ],
)
def test_a_launcher_in_a_script(tmp_path: Path, command: str, expected: tuple[str, str] | None) -> None:
    (tmp_path / "run.sh").write_text(TORCHRUN)
    (tmp_path / "train.py").write_text("#!/usr/bin/env python3\nimport torch  # torchrun train.py\n")
    assert find(shlex.split(command), tmp_path) == expected
