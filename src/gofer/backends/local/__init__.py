"""This machine as a target: the embedded queue, no daemon, no set-up."""
