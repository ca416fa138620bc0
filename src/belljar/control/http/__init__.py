"""The API over HTTP: requests, their checks, and answers."""
