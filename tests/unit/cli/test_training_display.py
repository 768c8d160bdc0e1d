from implanting.base import Validation
from implanting.cli.training_display import TrainingDisplay
from implanting.pretraining import Finished, Started, Stepped, Stopped


def test_a_run_is_told_by_lines_where_there_is_no_terminal(capsys):
    with TrainingDisplay() as display:
        for event in (
            Started(2, 9, 24, "too few images"),
            Stepped(3, 1.0, 0.75, 0.5, 9.5, 0.1, 120.0, 90.0),
            Stepped(4, 1.3, 0.5, 0.5, 9.5, 0.1, 120.0, 75.0),
            Validation(4, "prototypes", 5, 5, 0.5, 0.01, 20),
            Stopped(4, 3.4),
            Finished(9, 8.0),
        ):
            display(event)
    assert capsys.readouterr().err.splitlines() == [
        "no few-shot validation: too few images",
        "step 2 of 9, 24 base images",
        "step 3  loss 0.750  accuracy 50.0 %  tau 9.50  120 images/s  1.5 min left",  # the next is too soon after it
        "step 4: validation 50.00 ± 1.00 % (5-way 5-shot, 20 tasks)",
        "stopped at step 4 after 3 s",
        "finished at step 9 after 8 s",
    ]
