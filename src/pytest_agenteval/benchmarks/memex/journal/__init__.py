"""The journal that agents work on: its entries, and the cards made of them."""
