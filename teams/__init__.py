"""Who may see what: people, teams, deployments, and the one file that answers every permission question."""
