"""DNS messages: questions, answers, and how they are framed over TCP."""
