"""Bridges between embedding spaces: fit, judge, apply, export; paired or not."""
