"""Ways to start the runs of a study."""
