"""Small functions for every day, each of them alone."""
