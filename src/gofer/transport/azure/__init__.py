"""Azure over HTTPS: the addresses of a cloud, logins, and requests. This package knows nothing of runs."""
