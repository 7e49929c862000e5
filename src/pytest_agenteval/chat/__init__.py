"""Models: one protocol, real providers behind it, and offline models that need no key."""
