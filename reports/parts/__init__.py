"""The sections of the report page, one idea each: a launch of a document in, what its section shows out."""
