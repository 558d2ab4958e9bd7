"""Records and printed results, and the scripts that write the pages' tables from them."""
