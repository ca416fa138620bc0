"""HTTP with clients: bytes of which little is held, requests one after another, and the headers that go through."""
