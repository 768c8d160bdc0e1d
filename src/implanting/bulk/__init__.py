"""Write the answers to very many images as rows: JSON lines, CSV or Parquet, in one file or in repeatable shards.

A row is a plain dictionary, and a bad image has a row like any other. All this room knows about classifiers is the
answers they give.
"""

from implanting.bulk.files import (
    arrow_table,
    csv_line,
    holds_answers,
    json_line,
    read_images,
    row_format,
    spelled,
    write_rows,
)
from implanting.bulk.records import content_digest, is_made_by, write_record
from implanting.bulk.rows import columns, row_of
from implanting.bulk.shards import Shard
from implanting.bulk.sorting import SortedImages

__all__ = [
    "Shard",
    "SortedImages",
    "arrow_table",
    "columns",
    "content_digest",
    "csv_line",
    "holds_answers",
    "is_made_by",
    "json_line",
    "read_images",
    "row_format",
    "row_of",
    "spelled",
    "write_record",
    "write_rows",
]
