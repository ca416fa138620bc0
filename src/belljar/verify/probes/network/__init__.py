"""What is tried over the network."""
