"""HTTP/1 messages: heads, bodies, and where one ends."""
