"""The memory ledger of each rank: readings, entries, and SGLang's own arithmetic."""
