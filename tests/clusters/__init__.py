"""Real clusters on one machine: Slurm with three nodes, and machines to reach over SSH. All of it needs root.

A cluster lives in one folder, in namespaces whose first process names that folder in its arguments. Nothing
of the system's own configuration is changed, and killing those processes ends everything a cluster ever
started.
"""
