"""Tasks in SForge's format: `BENCHMARK.yaml` beside one JSON file for each task."""
