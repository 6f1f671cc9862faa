"""The record: what runs there are, what happened in them, and what they left."""
