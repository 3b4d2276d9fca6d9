"""Pages about people and teams."""
