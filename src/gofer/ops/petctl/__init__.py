"""What the verbs of petctl do, in terms of gofer: a target, stores, a cluster, a run."""
