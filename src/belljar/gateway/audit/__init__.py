"""What happened, for the log and for the metrics."""
