"""`gofer_array.py COUNT GOFER…`: `true` COUNT times as one gofer array; the times are those gofer
recorded.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Sequence


def call(argv: Sequence[str]) -> str:
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, timeout=600).stdout


def seconds(rows: list[dict[str, str]]) -> float:
    """First recorded start to last recorded end of the rows."""
    started = min(datetime.datetime.fromisoformat(row["started_at"]) for row in rows)
    ended = max(datetime.datetime.fromisoformat(row["ended_at"]) for row in rows)
    return (ended - started).total_seconds()


def main(count: int, gofer: Sequence[str]) -> None:
    values = ",".join(str(number) for number in range(count))
    asked = time.perf_counter()
    group = call([*gofer, "submit", "--each", f"i={values}", "true"]).strip()
    submit_s = time.perf_counter() - asked
    call([*gofer, "wait", group])
    whole_s = time.perf_counter() - asked
    rows = json.loads(call([*gofer, "list", "runs", "--json", "--rows", "--all", "--group", group]))
    rows = [row for row in rows if row["id"] != group]
    bad = [row for row in rows if row["state"] != "succeeded"]
    if len(rows) != count or bad:
        raise SystemExit(f"{len(rows)} of {count} rows recorded, {len(bad)} of them not succeeded")
    print(json.dumps({"run_s": seconds(rows), "whole_s": whole_s, "submit_s": submit_s, "count": count}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
