"""What is tried inside a sandbox: small programs that need Python's standard library and nothing else.

This package travels into the sandbox as one file (`belljar.verify.bundle`), and imports nothing but itself. It does not
know how the sandbox is made. Outside, the same modules are imported for the list of the probes alone.
"""
