"""The paper's tables and figure as commands."""
