"""Saving a fitted model to a file, and loading it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from sklearn.utils.validation import check_is_fitted

from bpfa.estimator.model_file import read_outcome, write_outcome
from bpfa.estimator.publishing import publish
from bpfa.fitting.run import Outcome

__all__ = ["SavingMixin"]


class SavingMixin:
    """The methods of BPFA that write and read files."""

    _outcome: Outcome

    if TYPE_CHECKING:

        def __init__(self, **parameters: Any) -> None: ...

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters, as scikit-learn's BaseEstimator does."""

    def save(self, path: str | os.PathLike[str], *, with_rows: bool = False) -> None:
        """Save the model with everything that is needed to use it and to continue its training.

        If the model predicts rows by rows like them (see `groups`), it needs rows of the fit for that. They
        are data, perhaps of people, and are saved only if `with_rows` is set.

        Parameters
        ----------
        path : path-like
            An existing model is replaced once the new one is complete. A FileExistsError is raised if a file
            of another kind is there.
        with_rows : bool
            Also save the rows of the fit that were kept to find like rows among. Without them the loaded
            model predicts by its features alone, and gives a `RowsNotSavedWarning` when it does so.

        See Also
        --------
        bpfa.BPFA.load : Read a model from a file.
        bpfa.Checkpoint : Save a fit while it runs.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(500, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
        >>> model = BPFA(n_components=4, max_steps=50, random_state=0).fit(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(pathlib.Path(folder, "model.bpfa"))
        ...     again = BPFA.load(pathlib.Path(folder, "model.bpfa"))
        >>> bool((again.transform(X) == model.transform(X)).all())
        True
        """
        check_is_fitted(self)
        write_outcome(path, self.get_params(deep=False), self._outcome, with_rows=with_rows)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a saved model.

        Parameters
        ----------
        path : path-like
            A file written by `save` or as a checkpoint. Nothing in it is ever executed. A ValueError is
            raised if the file was not written by bpfa, is damaged, or was written by a later version.

        Returns
        -------
        BPFA

        See Also
        --------
        bpfa.BPFA.save : Write a model to a file.

        Examples
        --------
        >>> from bpfa import BPFA
        >>> BPFA.load("no-such-model.bpfa")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        FileNotFoundError: ...
        """
        parameters, outcome = read_outcome(path)
        model = cls(**parameters)
        publish(model, outcome)
        return model
