"""Create, import and explain settings files."""
