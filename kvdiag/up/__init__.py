"""`kvdiag up`: the whole site on one machine, as child processes of one supervisor."""
