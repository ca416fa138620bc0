"""The control plane: a server that makes sandboxes, changes their policies while they run, and tells what they do."""
