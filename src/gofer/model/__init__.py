"""Frozen data that every layer speaks: job, resources, layout, run, observation."""
