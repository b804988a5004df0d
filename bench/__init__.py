"""Benchmarks of gofer against its peers, side by side in one run.

`python -m bench` from the repository root measures and writes bench/RESULTS.md; docs/benchmarks.md says how
to read it. Nothing here is imported by gofer, and apart from `fill`, `snapshot_once` and
`azure.service` nothing here imports gofer: it is driven through its command line, as a user drives it.
"""
