"""One package for each kind of cluster, each built of the same few files. `base` has the contract."""
