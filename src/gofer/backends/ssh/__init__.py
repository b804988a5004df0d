"""Machines that can be logged in to, each with the same queue as this one has."""
