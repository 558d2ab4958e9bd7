"""The smoothed classifier as other attack libraries know classifiers, so that their attacks run on it unchanged.

`scores` says what they see; each library has a file that hands it over, behind `Smoothed.as_foolbox` and
`Smoothed.as_art`.
"""
