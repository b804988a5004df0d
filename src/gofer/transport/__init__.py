"""The only package on the laptop's side that starts processes and opens connections."""
