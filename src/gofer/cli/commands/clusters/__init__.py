"""Commands about targets, logins and images."""
