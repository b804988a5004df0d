"""`python -m bench [a b c d e f g h i] [--quick] [--no-peers]`: measures, and writes bench/RESULTS.md.

Parts that are not measured stay in the file as they are.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from bench import arrays, idle, machine, peers, snapshots, starts, submits
from bench.azure.section import section as azure_section
from bench.data.section import section as data_section
from bench.k8s.section import section as k8s_section
from bench.places import REPOSITORY, Places
from bench.plan import Plan
from bench.report import Section, document, missed
from bench.results import merged
from bench.slurm.section import section as slurm_section

PARTS: dict[str, Callable[[Plan], Section]] = {
    "a": starts.section,
    "b": submits.section,
    "c": arrays.section,
    "d": snapshots.section,
    "e": idle.section,
    "f": data_section,
    "g": slurm_section,
    "h": azure_section,
    "i": k8s_section,
}
# (f), (g), (h) and (i) are long and need servers; they have make targets of their own.
USUAL = "abcde"


def main(arguments: Sequence[str]) -> int:
    """0 when everything asked for was measured, bars missed or not; 1 when a part of gofer could not be."""
    options = _parser().parse_args(arguments)
    chosen = options.parts or list(USUAL)
    places = Places.open(os.environ)
    facts = machine.facts()
    _compile()
    competitors = (peers.servers if options.no_peers else peers.install)(places.peers, chosen)
    plan = (Plan.quick if options.quick else Plan.full)(places, competitors)
    sections = []
    try:
        for part in chosen:
            print(f"({part})", file=sys.stderr, flush=True)
            sections.append(PARTS[part](plan))
            idle.sweep(places.scratch)
    finally:
        idle.sweep(places.scratch)
        places.remove()
    versions = {"gofer": _gofer_version(), **competitors.versions, **machine.tool_versions()}
    flags = [*options.parts, *["--quick"] * options.quick, *["--no-peers"] * options.no_peers]
    text = document(facts, versions, sections, " ".join(["python -m bench", *flags]))
    output = Path(options.output)
    kept = output.read_text(encoding="utf-8") if output.exists() else ""
    output.write_text(merged(kept, text), encoding="utf-8")
    print(f"{missed(sections)} bars missed; the figures are in {options.output}", file=sys.stderr)
    return int(any("gofer" in name for section in sections for name in section.failures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="a|b|c|d|e|f|g|h|i", choices=[*PARTS, []], help="default: a to e"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds, small sizes: a look, not a result")
    parser.add_argument("--no-peers", action="store_true", help="install and measure nothing but gofer")
    parser.add_argument("--output", default=str(REPOSITORY / "bench" / "RESULTS.md"), metavar="FILE")
    return parser


def _compile() -> None:
    """An installed package comes with bytecode; a source tree must not pay for lacking it."""
    for folder in ("src", "bench"):
        compileall.compile_dir(REPOSITORY / folder, quiet=2)


def _gofer_version() -> str:
    try:
        return metadata.version("gofer")
    except metadata.PackageNotFoundError:
        return "source tree"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
