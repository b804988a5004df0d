"""What is submitted: the mix of runs, and the shell text that each of them executes."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from pathlib import Path
from random import Random

from home import Home

_SCRIPT = Path(__file__).with_name("work.sh")
_TARGETS = ("aml", "itp", "sing")
# More than one block of an upload, so that it ends with a list of blocks.
_SEVERAL_BLOCKS = 9 << 20


class Work:
    """The commands of runs write what they did to `printed_folder`, which the simulated nodes reach."""

    def __init__(self, home: Home, canary: str) -> None:
        self.printed_folder = home.root / "truth"
        self.printed_folder.mkdir(parents=True)
        # It is the code of the runs that take code along.
        self._code = home.folder / _SCRIPT.name
        shutil.copy(_SCRIPT, self._code)
        digest = hashlib.sha256(canary.encode()).hexdigest()
        words = {"WORK_TRUTH": str(self.printed_folder), "WORK_DIGEST": digest}
        given = "; ".join(f"{name}={shlex.quote(value)}" for name, value in words.items())
        self.tail = f"{given}; . {shlex.quote(str(_SCRIPT))}"

    def words(self, rng: Random) -> list[str]:
        """Of one submission, before its command."""
        fields = {"WORK_LINES": str(rng.randint(3, 25))}
        words = ["-t", rng.choice(_TARGETS), *(["--debug"] if rng.random() < 0.3 else [])]
        if rng.random() < 0.15:
            words += ["-N", "2", *(["--procs", "2"] if rng.random() < 0.3 else [])]
        if rng.random() < 0.12:
            words += ["--each", f"k=1..{rng.randint(2, 3)}"]
        if rng.random() < 0.2:
            words += ["--retries", "2"]
            fields["WORK_FAILS"] = "once"
        if rng.random() < 0.2:
            words += ["--sync", "*.ckpt"]
            fields["WORK_LIVE"] = "yes"
        if rng.random() < 0.2:
            fields["WORK_BURST"] = str(rng.randint(100, 20_000))
        if rng.random() < 0.4:
            fields["WORK_BYTES"] = str(_SEVERAL_BLOCKS if rng.random() < 0.25 else rng.randint(0, 300_000))
        if rng.random() < 0.3:
            fields["WORK_CODE"] = str(self._code)
        else:
            words.append("--no-code")
        for name, value in fields.items():
            words += ["-e", f"{name}={value}"]
        return words
