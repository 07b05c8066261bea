"""What others implement, and what they are handed. `from ishiki import …` re-exports all of it."""
