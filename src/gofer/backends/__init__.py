"""One package a kind of cluster, each built of the same small files; see `base` for the contract."""
