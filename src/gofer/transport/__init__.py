"""The only place that starts processes or opens connections on the laptop's side."""
