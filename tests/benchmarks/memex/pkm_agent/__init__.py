"""The PKM agent, its tools and its evidence."""
