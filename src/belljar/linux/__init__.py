"""The Linux machinery: namespaces, packet filter, descriptors. It knows nothing of policies or sandboxes."""
