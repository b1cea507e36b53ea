"""Plans: frozen values that say everything about a call except its arrays, and the pure cached builders of them."""
