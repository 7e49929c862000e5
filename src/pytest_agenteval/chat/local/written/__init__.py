"""Tool calls as models write them, before any provider has read them."""
