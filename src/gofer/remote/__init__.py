"""Verbs that gofer calls on a machine, in this process or over SSH. Arguments and answers are plain data."""
