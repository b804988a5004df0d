"""The ledger, the local index of runs, and its queries. It is a cache of the stores, never the only copy."""
