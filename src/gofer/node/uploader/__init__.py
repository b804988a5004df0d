"""Send what a run writes on a node to an object store, and restore it for a later attempt."""
