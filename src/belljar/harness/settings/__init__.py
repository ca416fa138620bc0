"""Settings of a trial, each with where its value comes from."""
