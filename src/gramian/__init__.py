"""Linear maps inside trained neural networks: find, judge, use and fuse them."""
