"""The isolation self-test: one probe per known way out, run in a real sandbox, with a witness outside of it."""
