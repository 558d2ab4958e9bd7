"""Mutants of the core formulas: does a test notice when a comparison, a sign or a 1 is another one?"""
