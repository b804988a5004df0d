"""Reads and writes files of settings: YAML with the lines of its keys, decoded into typed values."""
