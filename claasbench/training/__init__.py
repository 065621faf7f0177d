"""Turns rows of ids into steps on a policy's own weights: forward, losses, credit, replay."""
