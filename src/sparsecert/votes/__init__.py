"""Ablated copies through the model, counted: the one hot loop, and the engine that makes it fast."""
