"""What is deprecated goes on working, and warns at the line of the user who uses it."""

import pytest

from bpfa._support.deprecation import deprecated, renamed_parameter, warn_deprecated


@deprecated(since="0.1", use="twice", removed_in="0.3")
def doubled(value):
    """Return twice a value."""
    return 2 * value


class Model:
    @deprecated(since="0.1", use="impute", removed_in="0.4")
    def fill(self, value):
        return value

    @renamed_parameter("hide", "dropout", removed_in="0.4")
    def fit(self, X, *, dropout=0.0):
        """Fit."""
        return X, dropout


def test_a_deprecated_function_works_and_warns_where_it_is_called():
    with pytest.warns(FutureWarning, match=r"doubled\(\) is deprecated .* in bpfa 0\.3; use twice") as caught:
        assert doubled(4) == 8
    assert caught[0].filename == __file__
    assert doubled.__name__ == "doubled"
    assert "deprecated::" in doubled.__doc__


def test_a_deprecated_method_works_and_warns():
    with pytest.warns(FutureWarning, match=r"fill\(\) is deprecated .* 0\.4; use impute"):
        assert Model().fill(3) == 3


def test_a_former_name_of_a_parameter_is_accepted():
    with pytest.warns(FutureWarning, match=r"hide=0\.1 is deprecated .* use dropout=0\.1") as caught:
        assert Model().fit("X", hide=0.1) == ("X", 0.1)
    assert caught[0].filename == __file__


def test_the_present_name_does_not_warn(recwarn):
    assert Model().fit("X", dropout=0.1) == ("X", 0.1)
    assert Model().fit("X") == ("X", 0.0)
    assert not recwarn.list


def test_both_names_are_refused():
    with pytest.raises(TypeError, match="hide and dropout: two names of one parameter"):
        Model().fit("X", hide=0.1, dropout=0.2)


def test_both_names_are_refused_if_one_is_given_by_place():
    @renamed_parameter("data", "X", removed_in="0.4")
    def fit(X):
        return X

    with pytest.raises(TypeError, match="data and X"):
        fit(1, data=2)


def test_a_name_that_the_function_has_not_is_noticed_at_once():
    with pytest.raises(TypeError, match="new='droput': not a parameter of fit"):

        @renamed_parameter("hide", "droput", removed_in="0.4")
        def fit(dropout):
            return dropout


def test_the_warning_shows_the_caller():
    def old():
        warn_deprecated("old()", use="new()", removed_in="0.3")

    with pytest.warns(FutureWarning) as caught:
        old()
    assert caught[0].filename == __file__
