"""Azure logins and profiles."""
