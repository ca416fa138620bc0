"""What a request asks of the provider itself: to search the web, to fetch, to run code, to call other servers.

Theory of operation
-------------------
A sandbox without a network that may ask a provider for a web search has a network. Providers add such tools all the
time, so what is known to stay between the client and the model is let through (`forms`), and everything else is refused
by its name, at any depth: tools, fields, items and parts of a conversation, and where an image comes from.

What a client itself defines is its own: texts, and its tools' arguments, are not looked into, and in a tool's schema
only references are.
"""
