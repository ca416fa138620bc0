"""The dashboard: a page that uses the API as any other client does."""
