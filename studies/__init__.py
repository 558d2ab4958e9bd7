"""Published experiments, repeated with this package. The package itself imports nothing from here."""
