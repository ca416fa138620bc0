"""Wire formats, without I/O: bytes in; need more, found or refuse out."""
