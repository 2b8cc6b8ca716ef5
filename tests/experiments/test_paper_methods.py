"""What the experiments of the paper add to the package: ladders, gradient ascent, and heavy tails."""

import numpy as np
import pytest

from bpfa import ArrayRows, Priors, Progress, algorithm, draw_data, train
from bpfa._support.philox import Stream
from bpfa.backends.numpy import MeanField, SpikeSlab
from bpfa.data import Batch
from bpfa.inference.sampler import GibbsSampler
from bpfa.inference.starts import principal_posterior
from bpfa.model.local import LocalPosterior
from bpfa.model.view import GlobalView
from experiments.machine import machine
from experiments.measure import climb
from experiments.scores import HiddenEntries, posterior_scores, spaced_scores
from paper.__main__ import main
from paper.drift import Kept, judged
from paper.gradient import Climber, ClimbingMeanField, ClimbingSpikeSlab, LocalBound
from paper.matrices import Judges, readings_of
from paper.readings import found_in, judged_twice, wins
from paper.student import StudentSampler, log_density

METHODS = [(ClimbingMeanField, MeanField), (ClimbingSpikeSlab, SpikeSlab)]


class FakePosterior:
    def host(self):
        return self


def test_a_ladder_has_the_steps_asked_for_and_does_not_count_the_judging():
    training = (Progress(step, 0.0, 0.0, 1.0, FakePosterior()) for step in range(1, 100))
    ticks = iter(range(1000))
    rungs = []
    for rung in climb(training, [2, 5, 9], clock=lambda: float(next(ticks))):
        for _ in range(50):
            next(ticks)
        rungs.append((rung.step, rung.seconds))
    # The clock is read when a rung is reached and when training resumes: one tick between the two.
    assert rungs == [(2, 1.0), (5, 2.0), (9, 3.0)]


@pytest.fixture(scope="module")
def problem():
    data = draw_data(300, 6, 3, g_o=100.0, g_w=1.0, seed=0)
    hidden = np.random.default_rng(0).random(data.y.shape) < 0.2
    return data.y, hidden


def test_chains_make_their_burn_in_before_every_draw(problem):
    y, hidden = problem
    entries = HiddenEntries.of(y, hidden, np.arange(200))
    for method in ("mimno-svi", "gibbs-ssvi"):
        *_, last = train(y, 5, missing=hidden, algorithm=method, n_steps=60, seed=0)
        chosen = algorithm(method, burn_in=4)
        one, spaced = (
            score(last.posterior, entries, chosen, 1, 0) for score in (posterior_scores, spaced_scores)
        )
        assert one == spaced
        ten, ten_spaced = (
            score(last.posterior, entries, chosen, 10, 0) for score in (posterior_scores, spaced_scores)
        )
        assert (ten == ten_spaced) == (method == "gibbs-ssvi")
        assert ten_spaced["log_likelihood"] == pytest.approx(ten["log_likelihood"], abs=0.1)


def test_the_entries_that_choose_the_step_are_not_scored(problem):
    y, hidden = problem
    judges = Judges(y, hidden, {"validated": 50, "scored": 100, "seed": 0})
    chosen, scored = judges.validation.batch.ids, judges.entries.batch.ids
    assert (len(chosen), len(scored)) == (50, 100)
    assert not set(chosen) & set(scored)
    # Neither are hidden entries seen by the chains.
    assert not (judges.entries.batch.observed & judges.entries.hidden).any()


def test_gibbs_ssvi_is_also_scored_with_its_weights_integrated_out(problem):
    y, hidden = problem
    judges = Judges(y, hidden, {"validated": 50, "scored": 200, "seed": 0})
    *_, last = train(y, 5, missing=hidden, n_steps=100, seed=0)
    found = judges.scores(last.posterior, algorithm("gibbs-ssvi", burn_in=10))
    # The same quantity with less variance, so that the mean of the densities falls less short.
    assert found["log_likelihood"] < found["integrated"] < found["log_likelihood"] + 0.5
    assert "integrated" not in judges.scores(last.posterior, algorithm("mf-ssvi"))


def test_the_best_step_is_chosen_for_each_length_of_chains():
    def rung(step, short, long):
        scores = {
            name: {"validation": v, "log_likelihood": v - 1} for name, v in (("short", short), ("long", long))
        }
        return {"step": step, "noise_std": 1.0, "active": 1, **scores}

    found = readings_of([rung(1, -1.0, -2.0), rung(2, -1.5, -1.0), rung(3, -3.0, -3.0)])
    assert (found["best"]["short"]["step"], found["best"]["long"]["step"]) == (1, 2)
    assert found["end"]["long"] == {
        "step": 3,
        "noise_std": 1.0,
        "active": 1,
        "validation": -3.0,
        "log_likelihood": -4.0,
    }


class TestReadings:
    def record(self, method, seed, best, end):
        readings = {name: {"long": {"score": value}} for name, value in (("best", best), ("end", end))}
        return {"settings": {"method": method, "seed": seed}, "result": {"readings": readings}}

    def test_seeds_without_all_methods_are_left_out(self):
        methods = ("mf-svi", "mf-ssvi", "titsias-ssvi", "mimno-svi", "gibbs-ssvi")
        records = [self.record(method, 0, n, -n) for n, method in enumerate(methods)]
        records.append(self.record("mf-svi", 1, 9.0, 9.0))
        reached = found_in(records, "a", "score")
        assert list(reached["best"]) == [("a", 0)]
        assert wins(reached["best"], [("gibbs-ssvi", "mf-svi")]) == (1, 1)
        assert wins(reached["end"], [("gibbs-ssvi", "mf-svi")]) == (0, 1)
        claim = judged_twice(
            "better",
            reached,
            lambda found: ("", "holds" if wins(found, [("gibbs-ssvi", "mf-svi")])[0] else "does not hold"),
        )
        assert claim.in_words == "**holds** at its best, **does not hold** at its end"


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    view = GlobalView(rng.normal(size=(6, 8)), 0.1 * rng.random((6, 8)), rng.normal(size=6), 3.0, 0.7)
    y = rng.normal(size=(5, 8))
    y[0, 2] = np.nan
    return view, Batch(y), Climber(*rng.normal(size=(3, 5, 6)))


@pytest.mark.parametrize(("climbing", "method"), METHODS)
class TestGradient:
    def test_the_bound_is_that_of_the_specification_up_to_a_constant(self, rows, climbing, method):
        view, batch, here = rows
        bound = LocalBound(view, batch, method.has_idle_weights)

        def difference(at):
            q = LocalPosterior(1 / (1 + np.exp(-at.odds)), at.m, np.exp(at.log_kappa))
            return method().bound(view, batch, q) - bound.and_slope(at)[0]

        other = Climber(*(0.3 * value for value in here))
        np.testing.assert_allclose(difference(here), difference(other), atol=1e-10)

    def test_the_slope_is_the_derivative_of_the_bound(self, rows, climbing, method):
        view, batch, here = rows
        bound = LocalBound(view, batch, method.has_idle_weights)
        slope = bound.and_slope(here)[1]
        for place in range(3):
            for k in range(view.n_features):
                ends = []
                for shift in (1e-6, -1e-6):
                    moved = [value.copy() for value in here]
                    moved[place][:, k] += shift
                    ends.append(bound.and_slope(Climber(*moved))[0])
                np.testing.assert_allclose(slope[place][:, k], (ends[0] - ends[1]) / 2e-6, atol=1e-5)

    @pytest.mark.parametrize("start", ["middle", "random"])
    def test_more_steps_never_lower_the_bound(self, rows, climbing, method, start):
        view, batch, _ = rows
        reached = [
            method().bound(view, batch, climbing(n, start).fit(view, batch)) for n in (0, 1, 5, 20, 100)
        ]
        assert (np.diff(reached, axis=0) >= -1e-9).all()

    def test_one_feature_alone_is_climbed_to_the_optimum(self, rows, climbing, method):
        view, batch, _ = rows
        one = GlobalView(view.phi[:1], view.v[:1], view.logit[:1], 1.0, 0.7)
        best = method(200).bound(one, batch, method(200).fit(one, batch))
        climbed = climbing(3000, "middle").fit(one, batch)
        np.testing.assert_allclose(method().bound(one, batch, climbed), best, atol=0.02)


class TestHeavyTails:
    def chain(self, y, kind, sweeps=120):
        rows = ArrayRows(y)
        stream = Stream.from_seed(0)
        view = principal_posterior(rows, 3, seed=stream).sampled(stream.generator(0))
        sampler = kind(rows.take(np.arange(len(y))), Priors(), view, stream)
        states = []
        for _ in range(sweeps):
            sampler.sweep()
            states.append((sampler.view.g_o**-0.5, getattr(sampler, "nu", None)))
        return np.mean([noise for noise, _ in states[sweeps // 2 :]]), states[-1][1]

    def test_gaussian_noise_is_found_to_be_gaussian(self):
        y = draw_data(400, 8, 2, g_o=25.0, g_w=1.0, seed=1).y
        gaussian, _ = self.chain(y, GibbsSampler)
        noise, nu = self.chain(y, StudentSampler)
        assert nu >= 15
        assert noise == pytest.approx(gaussian, rel=0.1)
        assert noise == pytest.approx(0.2, rel=0.1)

    def test_heavy_tails_are_found(self):
        y = 0.2 * np.random.default_rng(0).standard_t(2.0, size=(1500, 8))
        noise, nu = self.chain(y, StudentSampler)
        assert nu == 2.0
        assert noise == pytest.approx(0.2, rel=0.05)

    def test_heavy_tails_do_not_swell_the_noise(self):
        rng = np.random.default_rng(0)
        signal = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 8))
        y = signal + 0.2 * rng.standard_t(2.0, size=signal.shape)
        noise, nu = self.chain(y, StudentSampler)
        assert nu <= 4
        assert self.chain(y, GibbsSampler)[0] > 1.5 * noise

    def test_densities_add_up_to_one(self):
        error = np.linspace(-400, 400, 400_001)
        for nu in (None, 2.0, 10.0):
            assert np.exp(log_density(error, 4.0, nu)).sum() * 0.002 == pytest.approx(1.0, abs=1e-3)


def test_states_of_the_second_half_of_a_chain_predict():
    truth, hidden = np.zeros((2, 2)), np.array([[True, True], [False, True]])
    entries = HiddenEntries.of(truth, hidden, np.arange(2))
    exact = np.full(2, -0.5 * np.log(2 * np.pi)) * [2, 1]
    states = [
        Kept(sweep, np.full(3, error), density, density - 1.0)
        for sweep, error, density in (
            (1, 10.0, exact - 50),
            (2, 10.0, exact - 50),
            (3, 0.0, exact),
            (4, 0.0, exact),
        )
    ]
    found = judged(states, entries)
    assert found["log_likelihood"] == pytest.approx(-0.5 * np.log(2 * np.pi), abs=1e-4)
    assert found["integrated"] == pytest.approx(found["log_likelihood"] - 2 / 3, abs=1e-4)
    assert (found["mse"], found["draws"]) == (0.0, 2)


def test_a_plan_runs_nothing(tmp_path, capsys):
    where = ["--tiny", "--jobs", "2", "--data", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main(["cytof", "--plan", *where]) == 0
    assert "planned in all" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_an_unknown_device_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["cytof", "--tiny", "--device", "gpu"])
    assert "device='gpu': expected one of" in capsys.readouterr().err


def test_the_device_is_named_beside_the_processor():
    assert machine("numpy").startswith(machine())
    assert machine("numpy").endswith(", numpy")
