"""Four domains with ordinary tasks and attacks: an office, a shop, a household, a team that writes software."""
