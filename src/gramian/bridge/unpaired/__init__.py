"""Matching of two clouds that share no row: clusters, anchors, refinement."""
