"""Many small files as few large objects: packs of at most 64 MiB and an index of what lies where.

In the folder that was packed:

    .gofer-pack/index/000001     the index, a new number each time it changes; the highest counts
    .gofer-pack/packs/<sha256>   the bytes of files, one behind the other, named by their content

A file that is not packed, beside the packs, wins over a packed one of the same name.
"""
