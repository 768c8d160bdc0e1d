"""The verbs, one module each; `main` of each takes the arguments and gives the exit status."""
