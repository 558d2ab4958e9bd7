"""How a certificate is obtained: a fixed number of samples, as many as the radius needs, or all of a fixed set."""
