"""The way in: uploads, their diagnosis in the background, and the report that is stored."""
