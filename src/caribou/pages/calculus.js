"use strict";
/* The formulas of caribou.privacy that the planner shows, function by function under the same names. The statements, with symbols,
   sources and what they assume, are the docstrings there; tests/pages/test_calculus.py compares both to 1e-6. Nothing here is used
   for a release. Letters: C = contraction, F = degree floor, M = degree cap, n = nodes, K = hops. */
const Calculus = (() => {
  const FALSE_POSITIVE_RATES = [0.001, 0.01];
  const PAPER_RDP_ORDER = 6;
  const SMALLEST_EPSILON = 2 ** -20, LARGEST_EPSILON = 40;

  /** Refuse an input in the library's words. */
  function require(holds, field, rule, value) {
    if (!holds) throw new RangeError(`${field} must be ${rule}, got ${value}`);
  }

  // -- the normal distribution (caribou.privacy.accounting) ---------------------------------------------------------

  /** erf(z) for 0 <= z < 2.5: 2/sqrt(pi) e^(-z^2) times the sum of 2^k z^(2k+1) / (2k+1)!!. */
  function erfSeries(z) {
    let term = z, sum = z;
    for (let k = 1; Math.abs(term) > 1e-18 * Math.abs(sum); k++) sum += term *= (2 * z * z) / (2 * k + 1);
    return (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
  }

  /** erfc(z) e^(z^2) for z >= 2.5: the continued fraction of Laplace, from its far end. */
  function scaledErfc(z) {
    let tail = z;
    for (let k = 80; k > 0; k--) tail = z + k / 2 / tail;
    return 1 / (Math.sqrt(Math.PI) * tail);
  }

  function logErfc(z) {
    if (z >= 2.5) return -z * z + Math.log(scaledErfc(z));
    return Math.log(z >= 0 ? 1 - erfSeries(z) : z > -2.5 ? 1 + erfSeries(-z) : 2 - Math.exp(-z * z) * scaledErfc(-z));
  }

  const logNormalCdf = (x) => logErfc(-x / Math.SQRT2) - Math.LN2;
  const normalCdf = (x) => Math.exp(logNormalCdf(x));

  /** Phi^-1(p): Newton's method for log Phi, which is concave, so that it converges from the left without a detour. */
  function normalQuantile(p) {
    if (p === 0.5) return 0;
    if (p > 0.5) return -normalQuantile(1 - p);
    const target = Math.log(p);
    let x = -Math.sqrt(-2 * target) - 1;
    for (let k = 0; k < 60; k++) {
      const log = logNormalCdf(x), slope = Math.exp(-x * x / 2 - 0.5 * Math.log(2 * Math.PI) - log);
      const step = (target - log) / slope;
      x += step;
      if (Math.abs(step) < 1e-14 * (1 + Math.abs(x))) break;
    }
    return x;
  }

  /** The smallest point (to 1e-13) where a monotone predicate holds, from the side where it holds. */
  function bisect(holds, failsAt, holdsAt) {
    while (holdsAt - failsAt > 1e-13 * Math.max(1e-3, holdsAt)) {
      const middle = (failsAt + holdsAt) / 2;
      if (middle === failsAt || middle === holdsAt) break;
      if (holds(middle)) holdsAt = middle;
      else failsAt = middle;
    }
    return holdsAt;
  }

  // -- GDP (caribou.privacy.accounting) -----------------------------------------------------------------------------

  function gdpDelta(mu, epsilon) {
    const first = logNormalCdf(-epsilon / mu + mu / 2), second = epsilon + logNormalCdf(-epsilon / mu - mu / 2);
    return Math.exp(first) * -Math.expm1(Math.min(0, second - first));
  }

  function gdpEpsilon(mu, delta) {
    if (!Number.isFinite(mu)) return Infinity;
    if (gdpDelta(mu, 0) <= delta) return 0;
    let high = mu * mu / 2 + mu * Math.sqrt(2 * Math.log(1 / delta)) + 1e-12;
    while (gdpDelta(mu, high) > delta) high *= 2;
    return bisect((e) => gdpDelta(mu, e) <= delta, 0, high);
  }

  function gdpMu(epsilon, delta) {
    let enough = 1, tooLittle = 1;
    while (gdpDelta(1 / enough, epsilon) > delta) enough *= 2;
    while (gdpDelta(1 / tooLittle, epsilon) <= delta) tooLittle /= 2;
    return (1 - 4e-12) / bisect((m) => gdpDelta(1 / m, epsilon) <= delta, tooLittle, enough);
  }

  function pureGdpMu(epsilon) {
    if (epsilon > 700) return Infinity;
    if (epsilon < 1e-3) {
      const x = Math.tanh(epsilon / 2) / 2;
      return 2 * Math.sqrt(2 * Math.PI) * x * (1 + 2.1 * x * x);
    }
    return -2 * normalQuantile(1 / (1 + Math.exp(epsilon)));
  }

  // -- RDP (caribou.privacy.accounting) -----------------------------------------------------------------------------

  function rdpNoiseMultiplier(epsilon, delta, order) {
    const left = epsilon - Math.log(1 / delta) / (order - 1);
    return left > 0 ? Math.sqrt(order / (2 * left)) : null;
  }

  function bestRdpOrder(epsilon, delta) {
    const t = Math.log(1 / delta) / epsilon;
    return 1 + t + Math.sqrt(t * t + t);
  }

  const rdpConversion = (order, delta) => Math.log1p(-1 / order) - Math.log(order * delta) / (order - 1);

  /** The Renyi bound of one release: {mu} is Gaussian, {epsilon} is pure. */
  function rdp(release, a) {
    if (release.mu !== undefined) return (a * release.mu ** 2) / 2;
    const e = release.epsilon, logQ = e < 500 ? -Math.log1p(Math.exp(e)) : -e;
    return (logQ + a * e + Math.log1p(Math.exp((1 - 2 * a) * e))) / (a - 1);
  }

  // -- sensitivity (caribou.privacy.sensitivity) --------------------------------------------------------------------

  /** Theorem 2. ``nodes`` = null: of every graph. */
  function edgeSensitivity({ contraction, alpha1, floor: F, nodes = null }) {
    const largest = nodes === null ? Infinity : Math.max(0, nodes - 2);
    const root = 1 / Math.sqrt(Math.max(1, F) + 1);
    const change = (d) => {
      const s = Math.max(d, F) + 1, t = Math.max(d + 1, F) + 1;
      return { d, s, t, delta: 1 / Math.sqrt(s) - 1 / Math.sqrt(t) };
    };
    let worst = 0;
    const ends = [];
    for (let d = Math.min(Math.max(0, F - 1), largest, F); d <= Math.min(largest, Math.max(F, 3)); d++) ends.push(change(d));
    for (const u of ends)
      for (const v of ends) {
        const entry = 1 / Math.sqrt(u.t * v.t);
        const row = (end) => 1 / end.s - 1 / end.t + end.delta * end.d * root + entry;
        const neighbours = root ** 2 * (u.d * u.delta ** 2 + v.d * v.delta ** 2);
        const common = (2 * u.delta * v.delta * Math.min(u.d, v.d)) / (Math.max(2, F) + 1);
        worst = Math.max(worst, row(u) ** 2 + row(v) ** 2 + neighbours + common);
      }
    return contraction * alpha1 * Math.sqrt(worst);
  }

  const nodeFloor = (nodes) => Math.floor(Math.sqrt(4 * nodes - 1)) + 1;

  /** What was declared, with the defaults of `declared_bounds`; null = not declared. */
  function declaredBounds(unit, { nodes = null, floor = null, cap = null, declared = null }) {
    const node = unit === "node";
    if (!node) [cap, declared] = [null, null];
    if (node && floor === null && cap === null && nodes !== null) floor = nodeFloor(nodes);
    floor ??= cap ?? 0;
    const cuts = cap !== null && (nodes === null || cap < nodes - 1);
    require(declared === null || !cuts || declared <= cap, "declared_degree", `at most degree_cap = ${cap}`, declared);
    require(!cuts || floor >= cap, "degree_floor", `at least degree_cap = ${cap} at node level`, floor);
    const largest = nodes === null ? null : Math.max(1, nodes - 1);
    require(!node || largest !== null || cuts, "nodes", "given at node level where there is no degree_cap", "none");
    const covered = declared !== null ? Math.min(declared, largest ?? Infinity) : cuts ? cap : largest;
    return { floor, cap, nodes, declared, cuts, largest, covered };
  }

  /** Theorem 3: T where every edge is read. */
  function uncutOtherRows(F, M, d) {
    if (F >= M) return Math.sqrt(d) / (F + 1);
    const one = Math.max(1, F) + 1;
    const q = (k) => 1 - Math.sqrt((k + 1) / (k + 2));
    const r = (k) => (1 / Math.sqrt(k + 1)) * (1 / Math.sqrt(k + 1) + k / Math.sqrt(one));
    let rescaled = 0;
    for (let k = F; k < Math.min(M, F + 8); k++) rescaled = Math.max(rescaled, q(k) * r(k));
    return Math.sqrt(d / ((Math.max(d, F) + 1) * one)) + Math.sqrt(d) * (rescaled + q(F));
  }

  /** Theorem 9: T where degrees are cut; every one of the d neighbours may take another edge instead. */
  const cutOtherRows = (F, M, d) => (Math.sqrt(Math.min(d, M)) + Math.sqrt(d * (Math.min(d, M) + 2))) / (F + 1);

  /** Theorems 3 and 9, for a node of degree d that leaves. */
  function nodeSensitivity({ contraction, alpha1, bounds, degree = bounds.covered }) {
    require(alpha1 === 1 || bounds.nodes !== null, "nodes", "given at node level when alpha1 < 1", "none");
    const T = bounds.cuts
      ? cutOtherRows(bounds.floor, bounds.cap, degree)
      : uncutOtherRows(bounds.floor, bounds.largest, Math.min(degree, bounds.largest));
    const mean = alpha1 === 1 ? 0 : (1 - alpha1) / Math.sqrt(bounds.nodes);
    return Math.hypot(1, contraction * (alpha1 * T + mean));
  }

  /** The contractive layer at a unit; ``degree``: of the node that leaves. */
  function layerSensitivity(unit, { contraction, alpha1, bounds, degree }) {
    if (unit === "edge") return edgeSensitivity({ contraction, alpha1, floor: bounds.floor, nodes: bounds.nodes });
    return nodeSensitivity({ contraction, alpha1, bounds, degree });
  }

  /** Theorem 1: kappa. */
  function convergenceFactor(K, contraction) {
    if (contraction === 1) return K;
    const h = -Math.log(contraction) / 2;
    return Math.min(K, Math.tanh(K * h) / Math.tanh(h));
  }

  // -- depth (caribou.privacy.depth) --------------------------------------------------------------------------------

  /** The cost of K hops, for each K. */
  function planRows({ epsilon, delta }, sensitivity, contraction, hops) {
    const mu = gdpMu(epsilon, delta);
    const fixed = rdpNoiseMultiplier(epsilon, delta, PAPER_RDP_ORDER);
    const best = rdpNoiseMultiplier(epsilon, delta, bestRdpOrder(epsilon, delta));
    const paper = fixed ?? best;
    return hops.map((K) => {
      const kappa = convergenceFactor(K, contraction), root = Math.sqrt(kappa);
      return {
        hops: K, kappa, mu, sensitivity,
        noise_std: (sensitivity * root) / mu,
        noise_multiplier: root / mu,
        rdp_noise_multiplier: paper * root,
        linear_noise_multiplier: paper * Math.sqrt(K),
        linear_gdp_noise_multiplier: Math.sqrt(K) / mu,
      };
    });
  }

  // -- by degree (caribou.privacy.plan) -----------------------------------------------------------------------------

  function curveDegrees(nodes, declared) {
    const degrees = new Set([0, 1, 2, 5, 10, 20, 50, 100, 1000, ...(declared === null ? [] : [declared])]);
    const largest = nodes === null ? Infinity : Math.max(0, nodes - 1);
    const kept = [...degrees].filter((d) => d <= largest);
    return [...new Set([...kept, ...(nodes === null ? [] : [largest])])].sort((a, b) => a - b);
  }

  /** What a node of a degree gets if propagation has the whole budget, in every graph. */
  function epsilonAtDegree({ epsilon, delta }, { contraction, alpha1, bounds }, degree) {
    const at = nodeSensitivity({ contraction, alpha1, bounds, degree }), headline = nodeSensitivity({ contraction, alpha1, bounds });
    return gdpEpsilon((gdpMu(epsilon, delta) * at) / headline, delta);
  }

  // -- in the words of an attacker (caribou.privacy.accounting) -----------------------------------------------------

  const gaussianRate = (rate, mu) => (rate <= 0 ? 0 : rate >= 1 ? 1 : normalCdf(normalQuantile(rate) + mu));

  /** Of any (epsilon, delta)-DP mechanism; delta = 0: of a pure one. */
  function anyRate(rate, epsilon, delta) {
    const growth = Math.exp(epsilon);
    return Math.min(1, growth * rate + delta, 1 - Math.max(0, 1 - delta - rate) / growth);
  }

  function attackRate({ epsilon, delta, fpr, gaussian, steps = 1 }) {
    const mu = gaussian ? gdpMu(epsilon, delta) : 0;
    let rate = fpr;
    for (let k = 0; k < steps; k++) rate = gaussian ? gaussianRate(rate, mu) : anyRate(rate, epsilon, delta);
    return rate;
  }

  /** What an attacker reaches against one release, {mu} or pure {epsilon}, as its certificate states it. */
  function releaseRate(release, fpr, steps = 1) {
    let rate = fpr;
    for (let k = 0; k < steps; k++) rate = release.mu !== undefined ? gaussianRate(rate, release.mu) : anyRate(rate, release.epsilon, 0);
    return rate;
  }

  function epsilonForRate({ tpr, fpr, delta, gaussian, steps = 1 }) {
    const rate = (epsilon) => attackRate({ epsilon, delta, fpr, gaussian, steps });
    let low = SMALLEST_EPSILON, high = LARGEST_EPSILON;
    require(rate(low) <= tpr, "attack rate", `above ${rate(low).toPrecision(6)}, which guessing reaches at this share of false alarms`, tpr);
    if (rate(high) <= tpr) return high;
    while (high - low > 1e-12 * high) {
      const middle = (low + high) / 2;
      if (rate(middle) <= tpr) low = middle;
      else high = middle;
    }
    return low;
  }

  // -- several releases (caribou.privacy.filters and months) --------------------------------------------------------

  const GAUSSIAN_SHARE = 3 / 4, RENYI_SHARE = 1 / 32, CONVERSION_PARTS = [2, 4, 8, 16];

  const renyiOrders = ({ epsilon, delta }) => CONVERSION_PARTS.map((c) => Math.ceil(1 + (c * Math.log(1 / delta)) / epsilon));

  function sums(releases, orders) {
    const add = (value) => releases.reduce((total, release) => total + value(release), 0);
    return {
      pure: add((r) => (r.mu !== undefined ? Infinity : r.epsilon)),
      muSquared: add((r) => (r.mu !== undefined ? r.mu ** 2 : pureGdpMu(r.epsilon) ** 2)),
      renyi: orders.map((order) => add((r) => Math.max(0, rdp(r, order)))),
    };
  }

  function filteredEpsilon(total, budget, orders) {
    const mu = Math.sqrt(total.muSquared), share = RENYI_SHARE * budget.delta;
    const renyi = total.renyi.map((bound, k) => Math.max(0, bound + rdpConversion(orders[k], share)));
    return Math.min(total.pure, mu > 0 ? gdpEpsilon(mu, GAUSSIAN_SHARE * budget.delta) : 0, ...renyi);
  }

  /** epsilon at delta of one release alone: its own certified cost. */
  const ownEpsilon = (release, delta) =>
    release.mu !== undefined ? gdpEpsilon(release.mu, delta) : Math.min(release.epsilon, pureEpsilonAt(release.epsilon, delta));

  /** `pure_pld_epsilon`: epsilon at delta of a pure mechanism. */
  function pureEpsilonAt(pure, delta) {
    const lost = delta * (1 + Math.exp(-pure));
    return lost < 1 ? Math.max(0, pure + Math.log1p(-lost)) : 0;
  }

  /** What releases cost together by the filters of a ledger with this budget. */
  function totalEpsilon(releases, budget) {
    const orders = renyiOrders(budget), costly = releases.filter((r) => r.mu > 0 || r.epsilon > 0);
    if (costly.length === 0) return 0;
    const total = filteredEpsilon(sums(costly, orders), budget, orders);
    return costly.length === 1 ? Math.min(total, ownEpsilon(costly[0], budget.delta)) : total;
  }

  /** The largest size up to ``whole`` of ``count`` further releases, all alike, that a ledger accepts. */
  function largest(before, budget, release, whole, count) {
    if (count === 1 && before.length === 0) return whole;
    const orders = renyiOrders(budget), start = sums(before, orders);
    const accepted = (size) => {
      const one = sums([release(size)], orders), plus = (key) => start[key] + count * one[key];
      const total = { pure: plus("pure"), muSquared: plus("muSquared"), renyi: orders.map((_, k) => start.renyi[k] + count * one.renyi[k]) };
      return filteredEpsilon(total, budget, orders) <= budget.epsilon;
    };
    if (accepted(whole)) return whole;
    let low = 0, high = whole;
    while (high - low > 1e-12 * whole) {
      const middle = (low + high) / 2;
      if (accepted(middle)) low = middle;
      else high = middle;
    }
    return low;
  }

  const pure = (budget, epsilon) => ({ epsilon });
  const gaussian = (budget, epsilon) => ({ mu: gdpMu(epsilon, budget.delta) });

  const largestPure = (before, budget, count) => largest(before, budget, (epsilon) => ({ epsilon }), budget.epsilon, count);

  function largestGaussian(before, budget, count) {
    const whole = gdpMu(budget.epsilon, budget.delta), mu = largest(before, budget, (mu) => ({ mu }), whole, count);
    if (mu === 0 || mu === whole) return mu === 0 ? 0 : budget.epsilon;
    return gdpEpsilon(mu, budget.delta);
  }

  /** Two steps: this one or that one. */
  const groupOfTwo = (release) => (release.mu !== undefined ? { mu: 2 * release.mu } : { epsilon: 2 * release.epsilon });

  function monthlyPlan(way, budget, releases, first, later) {
    const twice = { epsilon: Math.min(2 * budget.epsilon, LARGEST_EPSILON), delta: budget.delta };
    return {
      way, first, later, releases,
      presence: totalEpsilon(releases, budget),
      replacement: totalEpsilon(releases.map(groupOfTwo), twice),
    };
  }

  /** The ways to make ``months`` releases within a budget (caribou.privacy.months). */
  function monthlyPlans(unit, budget, months, firstShare = 0.5) {
    const repeated = (way, release, size) => monthlyPlan(way, budget, Array(months).fill(release(budget, size)), size, size);
    const found = [];
    if (unit === "edge") {
      found.push(monthlyPlan("fit once, extend", budget, [pure(budget, budget.epsilon)], budget.epsilon, 0));
      found.push(repeated("fit anew, pure noise", pure, largestPure([], budget, months)));
    } else found.push(monthlyPlan("fit once, predict from own features", budget, [gaussian(budget, budget.epsilon)], budget.epsilon, 0));
    found.push(repeated("fit anew, Gaussian noise", gaussian, largestGaussian([], budget, months)));
    if (months > 1)
      for (const [noise, release, most] of [["pure", pure, largestPure], ["Gaussian", gaussian, largestGaussian]]) {
        if (noise === "pure" && unit !== "edge") continue;
        const first = firstShare * budget.epsilon, paid = release(budget, first), later = most([paid], budget, months - 1);
        const releases = [paid, ...(later > 0 ? Array(months - 1).fill(release(budget, later)) : [])];
        found.push(monthlyPlan(`fit once, predict with a small epsilon, ${noise} noise`, budget, releases, first, later));
      }
    return found;
  }

  // -- a search for settings (caribou.privacy.selection) ------------------------------------------------------------

  const ORDERS = [...Array(79).keys()].map((x) => 1 + (x + 1) / 8).concat([...Array(53).keys()].map((x) => x + 11), [96, 128, 256, 1024]);

  const trialMean = (shape, stop) => (shape === 1 ? 1 / stop : (1 / stop - 1) / Math.log(1 / stop));

  /** gamma of the number of trials with this mean. */
  function stopOfMean(shape, mean) {
    let low = 1e-12, high = 1 - 1e-9;
    for (let k = 0; k < 200; k++) {
      const middle = Math.sqrt(low * high);
      if (trialMean(shape, middle) > mean) low = middle;
      else high = middle;
    }
    return high;
  }

  /** epsilon at delta of the best of a hidden random number of trials, all of the cost of ``release``. */
  function selectionEpsilon(release, shape, mean, delta) {
    const stop = stopOfMean(shape, mean), e = 1 + shape, bounds = ORDERS.map((order) => [order, rdp(release, order)]);
    const inner = Math.min(...bounds.map(([b, r]) => e * (1 - 1 / b) * r + (e * Math.log(1 / stop)) / b));
    const extra = Math.log(trialMean(shape, stop));
    const totals = bounds.map(([a, r]) => r + inner + extra / (a - 1) + Math.log1p(-1 / a) - (Math.log(delta) + Math.log(a)) / (a - 1));
    return Math.max(0, Math.min(...totals));
  }

  /** The largest epsilon of one of ``trials`` trials of a search within the budget, by the better of the two ways. */
  function trialEpsilon(budget, trials, kind) {
    const release = (epsilon) => (kind === "pure" ? { epsilon } : { mu: gdpMu(epsilon, budget.delta) });
    const composed = (r) => (kind === "pure" ? trials * r.epsilon : gdpEpsilon(Math.sqrt(trials) * r.mu, budget.delta));
    const ways = [composed];
    if (trials > 1) for (const shape of [0, 1]) ways.push((r) => selectionEpsilon(r, shape, trials, budget.delta));
    const most = (total) => {
      let low = 0, high = budget.epsilon;
      for (let k = 0; k < 24; k++) {
        const middle = (low + high) / 2;
        if (total(release(middle)) <= budget.epsilon) low = middle;
        else high = middle;
      }
      return low;
    };
    return trials === 1 ? budget.epsilon : Math.max(...ways.map(most));
  }

  return {
    FALSE_POSITIVE_RATES, logNormalCdf, normalQuantile, gdpDelta, gdpEpsilon, gdpMu, pureGdpMu, rdpNoiseMultiplier, bestRdpOrder,
    edgeSensitivity, nodeFloor, declaredBounds, nodeSensitivity, layerSensitivity, convergenceFactor, planRows, curveDegrees,
    epsilonAtDegree, attackRate, releaseRate, epsilonForRate, totalEpsilon, monthlyPlans, selectionEpsilon, trialEpsilon,
  };
})();
if (typeof module !== "undefined") module.exports = Calculus;
