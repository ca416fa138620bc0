"""HTTP with clients: connections in fair turns, bytes of which little is held, and the headers that go through."""
