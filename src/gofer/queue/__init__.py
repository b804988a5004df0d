"""The queue of one machine: its database, its supervisor, the agents, and the leases of GPUs.

Standard library only, Python 3.8 and newer: see gofer.core.
"""
