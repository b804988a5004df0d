"""Commands about settings, secrets and gofer itself."""
