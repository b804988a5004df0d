"""Snapshots: the code folder as content-addressed objects, sent once and restored on any machine.

`capture.take_snapshot` reads a folder and sends what the store lacks; `contents` reads a snapshot. The
formats are in gofer.core.code.manifest, which nodes use too; docs/snapshots.md describes the ignore rules.
"""
