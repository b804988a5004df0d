"""The fault drill: real processes, killed at random points, and a count that proves each run ran once.

`python -m drill` runs it; docs/fault-drill.md says what it proves. Nothing here patches gofer: it starts the
command as a person would, and kills, fills, tears and turns back from outside.
"""
