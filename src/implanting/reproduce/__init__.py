"""The paper's tables and Figure 3, compared with our own runs, and a verdict on each of its claims.

This room trains nothing by itself: the command `reproduce` trains the base networks, tests them through `evaluation`,
and writes the results.
"""

from implanting.reproduce.bases import HOLD_OUT, PAPER_RECIPES, base_file, base_settings, check_bases, recipe_settings
from implanting.reproduce.claims import decide
from implanting.reproduce.drawing import draw_table
from implanting.reproduce.experiment import MARK, Experiment, Material, held_out_note, paper_data
from implanting.reproduce.figure3 import TASKS, Example, Figure3, Sight, figure3
from implanting.reproduce.figure3_drawing import write_figure3
from implanting.reproduce.kept_results import KeptResults
from implanting.reproduce.paper import ABLATION, TABLES
from implanting.reproduce.running import Trials, run_tests
from implanting.reproduce.settings import RESNET_DC, RESNET_GAP, Setting, Stage1, paper_implants
from implanting.reproduce.tables import DataName, Table
from implanting.reproduce.writing import CLAIM_COLUMNS, claim_rows, json_claims, markdown, result_rows, table_rows

__all__ = [
    "ABLATION",
    "CLAIM_COLUMNS",
    "HOLD_OUT",
    "MARK",
    "PAPER_RECIPES",
    "RESNET_DC",
    "RESNET_GAP",
    "TABLES",
    "TASKS",
    "DataName",
    "Example",
    "Experiment",
    "Figure3",
    "KeptResults",
    "Material",
    "Setting",
    "Sight",
    "Stage1",
    "Table",
    "Trials",
    "base_file",
    "base_settings",
    "check_bases",
    "claim_rows",
    "decide",
    "draw_table",
    "figure3",
    "held_out_note",
    "json_claims",
    "markdown",
    "paper_data",
    "paper_implants",
    "recipe_settings",
    "result_rows",
    "run_tests",
    "table_rows",
    "write_figure3",
]
