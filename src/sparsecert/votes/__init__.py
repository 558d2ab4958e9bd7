"""Classifying and counting ablated copies: the one hot loop, and the engine that makes it fast."""
