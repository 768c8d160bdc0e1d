"""The paper's tables as data, run on any data set and set beside the paper's figures; its Figure 3."""
