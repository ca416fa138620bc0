"""Our own programs, for sandboxes whose images may have none that can be trusted, or none at all.

A toolbox is a directory made of what is on this machine: Python with the few modules that are needed, some programs,
and the libraries that they are linked with, all at their own places. Its loader is called by name, and told where the
libraries are: so neither the image's loader nor its libraries have a part in it, wherever the directory is seen.
"""
