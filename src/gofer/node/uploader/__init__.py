"""Brings what a run writes on a node to an object store, and back for a later attempt."""
