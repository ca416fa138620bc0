"""The broker: HTTP inside, TLS outside, and the key is added in between. A process of its own, outside of sandboxes."""
