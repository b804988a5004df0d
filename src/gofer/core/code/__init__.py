"""The files of a run's code, as laptop and node both know them: manifests, packs, times, trees on a disk."""
