"""`spawn_array.py COUNT`: `true` COUNT times, two at once, with nothing around it: what the machine
itself can do.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(count: int) -> None:
    program = "/bin/true"
    running = 0
    started = time.perf_counter()
    for _ in range(count):
        if running == 2:
            os.wait()
            running -= 1
        os.posix_spawn(program, ["true"], os.environ)
        running += 1
    for _ in range(running):
        os.wait()
    took_s = time.perf_counter() - started
    print(json.dumps({"run_s": took_s, "whole_s": took_s, "count": count}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
