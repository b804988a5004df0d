"""Suites that any implementation of gofer's contracts must pass, shipped so that others can use them."""
