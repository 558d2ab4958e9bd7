"""Adapters that let the attacks of other libraries run on a smoothed classifier, unchanged.

`scores` defines what they see; `Smoothed.as_foolbox` and `Smoothed.as_art` wrap it for each library.
"""
