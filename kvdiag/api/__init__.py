"""The versioned REST interface under /api/v1/: everything the pages show, for programs."""
