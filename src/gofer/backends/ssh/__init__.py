"""Machines reached over SSH, each with a queue like that of this machine."""
