"""Template filters of the way in."""
