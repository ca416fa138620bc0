"""What tests of backends, and of what stands on them, can use: shipped, so that those of other packages can as well.

`pytest` and its kind come with the extra `testing`.
"""
