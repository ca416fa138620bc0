"""The client for asyncio. `sync` is generated from it."""
