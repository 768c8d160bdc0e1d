"""The verbs of the command line, one module each with a `main(arguments)` that gives the exit status."""
