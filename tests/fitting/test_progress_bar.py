"""The progress bar: drawn in terminals, silent elsewhere."""

import numpy as np
from small_table import X, model


class TestProgressBar:
    def test_silent_in_pipes(self, capfd):
        model(max_steps=3, verbose=1).fit(X)
        assert capfd.readouterr() == ("", "")

    def test_in_a_terminal(self):
        from io import StringIO

        from rich.console import Console

        from bpfa.fitting.history import History
        from bpfa.fitting.limits import Limits
        from bpfa.fitting.progress_bar import progress_bar

        text = StringIO()
        console = Console(file=text, force_terminal=True, width=140)
        history = History({name: np.full(1, 7.0) for name in History.COLUMNS})
        with progress_bar(Limits(14, None, None), verbose=1, console=console) as show:
            show(history, n_rows_seen=700.0)
        shown = text.getvalue()
        for part in ("step 7", "100 rows/s", "noise 7", "7.0 features", "held-out 7.0000"):
            assert part in shown
