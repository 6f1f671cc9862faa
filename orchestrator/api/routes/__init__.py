"""What the API serves, a module for each kind of thing. Each has a `router` that `app.py` includes."""
