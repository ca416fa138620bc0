"""The world outside of a sandbox that is tried out: every host there is, and a witness."""
