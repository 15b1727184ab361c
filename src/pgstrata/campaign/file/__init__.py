"""Campaign files: their models, reading them, what is wrong with one, the template and the reference."""
