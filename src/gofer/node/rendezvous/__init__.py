"""The nodes of an attempt find each other, and notice when a node is gone."""
