"""How the rule-based model plays the agents of this benchmark."""
