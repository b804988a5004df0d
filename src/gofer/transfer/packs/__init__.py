"""Stores many small files as few large objects: packs of at most 64 MiB, and an index of the files in them.

A packed folder contains:

    .gofer-pack/index/000001     the index, with a new number for each change; the highest number counts
    .gofer-pack/packs/<sha256>   the bytes of files, one after the other, named by a hash of their content

An object beside the packs replaces the packed file of the same name.
"""
