"""The process that forks for a server, and what is done in the processes that it forks."""
