"""Azure over HTTPS: which cloud, who asks, and the requests. Knows nothing of runs."""
