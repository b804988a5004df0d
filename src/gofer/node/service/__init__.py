"""One node of a run on a service: a cluster whose nodes share only an object store."""
