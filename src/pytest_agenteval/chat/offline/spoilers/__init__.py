"""Reference solutions, each spoilt in one way on purpose: what graders that look at something have to see."""
