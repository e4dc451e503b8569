"""The interpretation of scores and heat maps by held-out normal images."""
