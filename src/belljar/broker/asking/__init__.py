"""What requests ask for, held against what is let through, before anything leaves the broker."""
