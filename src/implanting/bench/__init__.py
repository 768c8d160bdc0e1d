"""Speed and memory as ratios in one run, each against a stated rival."""
