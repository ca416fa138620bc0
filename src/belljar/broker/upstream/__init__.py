"""The way out: connections to providers, TLS, proxies, and patience with those who ask for it."""
