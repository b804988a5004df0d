"""Checks of this machine, of targets and of Azure."""
