"""The queue of one machine: database, supervisor, agents and GPU leases.

Standard library only, Python 3.8 and newer: see gofer.core.
"""
