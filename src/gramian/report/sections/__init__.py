"""What the jobs found, as sections of a page: one module per job, each from plain results."""
